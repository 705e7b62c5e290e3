"""What a run takes on many devices, against numbers worked out by hand."""

import pytest

from biaslab.ground.errors import ParameterError
from biaslab.pipeline.asked import Asked, Cost
from biaslab.runs import scaling
from biaslab.runs.scaling import Devices, Overhead


class Model:
    """A model whose images are told by its name."""

    def __init__(self, name):
        self.alike = (name,)


def asked(name, images, there=0):
    return Asked("paradox", name, "generated", images, there, False, None, Model(name), None, None)


COSTS = {(("slow",), None): Cost(2.0, 1e5, 8), (("fast",), None): Cost(0.5, 1e4, 8)}


def test_devices_are_told_by_number_and_seconds():
    assert scaling.devices("gpus=64") == Devices(64)
    assert scaling.devices("gpus=8, seconds=0.2") == Devices(8, 0.2)
    for wrong in ("64", "gpus=0", "gpus=2,seconds=0", "gpus=two", "gpus=2,seconds="):
        with pytest.raises(
            ParameterError, match=r"give a number of devices, such as gpus=64, or also the seconds"
        ):
            scaling.devices(wrong)


def test_kinds_come_one_after_the_other_and_the_last_round_is_not_full():
    nothing = Overhead(1e-9, 1e-9)
    # 640 images are 10 pieces of 64 x 2 s: on 4 devices three rounds of 128 s; 64 of the others a round of 32 s.
    found = [asked("slow", 700, there=60), asked("fast", 64), asked("bought", 1000)]
    whole = scaling.plan(found, COSTS, Devices(4), nothing)
    assert whole.seconds == pytest.approx(3 * 128 + 32)
    assert whole.pieces == 11
    assert whole.busy == pytest.approx((640 * 2 + 64 * 0.5) / (4 * 416))
    # On devices of which something else is known.
    assert scaling.plan(found, COSTS, Devices(4, 0.1), nothing).seconds == pytest.approx(3 * 6.4 + 6.4)
    # Fewer images than a piece holds end sooner.
    assert scaling.plan([asked("slow", 10)], COSTS, Devices(4), nothing).seconds == pytest.approx(20)


def test_the_store_or_what_hands_out_is_waited_for_where_workers_are_many():
    found = [asked("fast", 64 * 1000)]
    # A piece takes 32 s to make: with 0.5 s to write, 65 workers keep the store busy; 1,000 pieces take it 500 s.
    whole = scaling.plan(found, COSTS, Devices(500), Overhead(0.5, 0.001))
    assert whole.store_at == pytest.approx(65) and whole.handing_at == pytest.approx(32_500)
    assert whole.seconds == pytest.approx(500)
    assert scaling.plan(found, COSTS, Devices(10), Overhead(0.5, 0.001)).seconds == pytest.approx(100 * 32.5)
    # Where handing out takes longer than writing, that is waited for.
    assert scaling.plan(found, COSTS, Devices(500), Overhead(0.5, 2.0)).seconds == pytest.approx(2000)


def test_what_a_piece_takes_is_measured_and_leaves_nothing_behind(tmp_path):
    small, large = (scaling.overhead(tmp_path, size) for size in (1, 30_000_000))
    assert 0 < small.store < large.store and small.handing > 0
    assert not list(tmp_path.iterdir())
