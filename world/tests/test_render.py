"""The renderer: the same scene gives the same image, and the truth is where the pixels are."""

from dataclasses import replace

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.metrics.skin_tone import swatch_rgb
from biaslab_world.looks import OUTFITS
from biaslab_world.render import luminance, render, truth
from biaslab_world.scene import (
    AGES,
    ATTRIBUTES,
    CUES,
    SKIN_TONES,
    Cues,
    Light,
    Scene,
    sample_person,
    sample_scene,
)

WHITE_LIGHT = Light()
NAMES = sorted(OUTFITS)
BARE = {
    "hair_style": "cropped", "facial_hair": "none", "brow": "medium", "lashes": "no", "lips": "natural",
    "jaw": "medium", "shoulders": "medium", "earrings": "no", "neckline": "open",
}  # fmt: skip


def person(tone=5, seed=0, **overrides):
    options = {"age": "young", "expression": "neutral", "occupation": "nurse"} | overrides
    cues = Cues(**BARE | options.pop("cues", {}))
    sampled = sample_person(np.random.default_rng(seed), skin_tone=tone, **options)
    return replace(sampled, cues=cues, hair_colour="black", tilt=0.0)


def scene_of(*people, **overrides):
    options = {"things": (), "place": "studio", "light": WHITE_LIGHT, "seed": 0, "aspect": 1.0} | overrides
    return Scene(people=people, **options)


def grown(mask, n=1):
    out = np.pad(mask, n)
    return np.max(
        [out[i : i + mask.shape[0], j : j + mask.shape[1]] for i in range(2 * n + 1) for j in range(2 * n + 1)], 0
    )


def changed(a, b, size=64):
    return (render(a, size) != render(b, size)).any(2)


def test_truth_object_mask_matches_changed_pixels():
    scene = sample_scene(np.random.default_rng(3), genders=(), things=("car", "dog"))
    regions = truth(scene)
    for i, region in enumerate(regions.objects):
        scene_without = replace(scene, things=(*scene.things[:i], *scene.things[i + 1 :]))
        # Taking it away changes its pixels and, at most, the half-covered ones around them.
        is_changed = changed(scene, scene_without)
        assert not (is_changed & ~grown(region.mask)).any()
        assert (region.mask & ~is_changed).mean() < 0.01


def test_truth_face_mask_matches_changed_pixels():
    low, high = scene_of(person(5)), scene_of(person(6))
    regions = truth(low, 128)
    is_changed = changed(low, high, 128)
    face = regions.faces[0].mask
    # Another skin tone changes the face but for eyes and brows, and nothing outside the person.
    assert (is_changed & face).sum() > 0.75 * face.sum()
    assert not (is_changed & ~grown(regions.people[0].mask)).any()
    # The mask's bounds follow from the drawing: the chin half a face below the centre, ears at the sides.
    p = low.people[0]
    left, _, right, bottom = regions.faces[0].box
    assert bottom == pytest.approx((p.y + 0.5 * p.scale) * 128, abs=1.5)
    assert (right - left) == pytest.approx(2 * (0.375 + 0.085) * p.scale * 128, abs=2.5)


def test_truth_boxes_enclose_masks_tightly():
    rng = np.random.default_rng(7)
    for i in range(40):
        scene = sample_scene(
            rng, genders=(None,) * (1 + i % 2), occupations=(NAMES[i],) * (1 + i % 2), things=("bird",),
            attributes=(("gloves", "boots") if i % 3 == 0 else ("tie",),) * (1 + i % 2),
        )  # fmt: skip
        areas = truth(scene)
        regions = (*areas.people, *areas.faces, *areas.objects, *areas.attributes, *areas.props)
        assert len(areas.people) == len(areas.faces) == len(areas.props) == len(scene.people)
        for region in regions:
            if not region.mask.any():
                assert np.isnan(region.box).all()
                continue
            rows, columns = np.nonzero(region.mask)
            assert region.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        for region in (*areas.faces, *areas.attributes):
            assert not (region.mask & ~areas.people[region.person].mask).any()
        total = sum(r.mask.astype(int) for r in (*areas.people, *areas.objects, *areas.props))
        # Half of a pixel can belong to each of two things, no more than that.
        assert total.max() <= 2


@pytest.mark.long
def test_truth_faces_fill_tenth_of_frame():
    rng = np.random.default_rng(11)
    for i in range(2 * len(NAMES)):
        count = 1 + i % 2
        wear = [(), ("boots",), ("skirt", "hat"), ("gloves",)][i % 4]
        names = (NAMES[i % len(NAMES)],) * count
        scene = sample_scene(rng, genders=(None,) * count, occupations=names, attributes=(wear,) * count)
        width = round(64 * scene.aspect)
        for face in truth(scene).faces:
            left, top, right, bottom = face.box
            assert right - left >= 0.1 * width, (i, face.box)
            assert bottom - top >= 0.1 * 64, (i, face.box)
            assert left >= 0 and right <= width


def test_truth_attributes_are_visible():
    rng = np.random.default_rng(2)
    for i, name in enumerate(ATTRIBUTES * 8):
        scene = sample_scene(rng, occupations=(None if i % 2 else NAMES[i % len(NAMES)],), attributes=((name,),))
        pixel_counts = {r.name: r.mask.sum() for r in truth(scene).attributes}
        assert pixel_counts.keys() == set(scene.people[0].attributes)
        # 35 pixels of 4,096 at the least: a square of 6.
        assert pixel_counts[name] >= 35, (scene.people[0], pixel_counts)


def test_render_skin_is_swatch_times_light():
    light = Light(1.1, 1.0, 0.9, 0.8)
    for tone in SKIN_TONES:
        p = person(tone)
        expected = np.minimum(swatch_rgb()[tone - 1] * np.array([1.1, 1.0, 0.9]) * 0.8, 255)
        # The left cheek of a young face, plain skin.
        y, x = round((p.y + 0.14 * p.scale) * 256), round((p.x - 0.2 * p.scale) * 256)
        assert render(scene_of(p, light=light), 256)[y, x] == pytest.approx(expected, abs=1.01)


def test_render_features_contrast_at_every_tone_and_age():
    for tone in SKIN_TONES:
        for age in AGES:
            # Luminance of each feature against the cheek, measured on the image, not on the palette.
            p = person(tone, age=age)
            image = render(scene_of(p), 256).astype(float)

            def luminance_at(x, y, p=p, image=image):
                return luminance(image[round((p.y + y * p.scale) * 256), round((p.x + x * p.scale) * 256)])

            cheek = luminance_at(-0.27, 0.1)
            for place in ((0.18, -0.19), (0.0, 0.3), (0.1, -0.48)):  # brow, mouth, hair
                assert abs(luminance_at(*place) - cheek) >= 30, (tone, age, place)
            assert abs(luminance_at(0.165, -0.03) - luminance_at(0.235, -0.03)) >= 150, (tone, age, "eye")
            assert abs(luminance_at(0.02, 0.12) - cheek) >= 14, (tone, age, "nose")


@pytest.mark.parametrize("name", sorted(CUES))
def test_render_cue_is_visible_at_every_tone(name):
    for tone in (1, 4, 7, 9, 10):
        values = list(CUES[name]["female"])
        images = [render(scene_of(person(tone, cues={name: v}))).astype(float) for v in values]
        for i, a in enumerate(images):
            for b in images[i + 1 :]:
                # Some 64-pixel image points differ by 12 levels or more.
                assert (np.abs(a - b).max(2) >= 12).sum() >= 8, (name, tone, values[i])


def test_truth_left_person_and_props_keep_order():
    rng = np.random.default_rng(1)
    for _ in range(50):
        regions = truth(sample_scene(rng, genders=(None, None), occupations=("ceo", "assistant")))
        (a, b), (pa, pb) = regions.faces, regions.props
        assert a.box[2] < b.box[0]
        assert pa.box[0] < a.box[0] and pb.box[2] > b.box[2]
        assert (pa.name, pb.name) == ("briefcase", "clipboard")


@pytest.mark.parametrize("size", [0, 64.5, 10_000])
def test_render_invalid_size_is_refused(size):
    with pytest.raises(ParameterError, match="size is"):
        render(sample_scene(np.random.default_rng(0)), size)


def test_render_same_seed_gives_same_bytes():
    scenes = [sample_scene(np.random.default_rng(i), occupations=(NAMES[i],)) for i in range(12)]
    repeated = [sample_scene(np.random.default_rng(i), occupations=(NAMES[i],)) for i in range(12)]
    images = [render(scene).tobytes() for scene in scenes]
    assert images == [render(scene).tobytes() for scene in reversed(repeated)][::-1]
    assert len(set(images)) == 12
