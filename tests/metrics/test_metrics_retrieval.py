"""R-precision, FID and KID against loops, scipy and numbers worked out by hand."""

import numpy as np
import pytest

from biaslab.errors import InputError
from biaslab.metrics import retrieval
from biaslab.metrics.retrieval import frechet_distance, kernel_distance, r_precision

RNG = np.random.default_rng(5)


def test_r_precision_matches_hand_values():
    # Four captions; image 0's own is third best, image 1's ties with one, image 2's is best, image 3's last.
    similarity = np.array([[3, 5, 1, 4], [1, 2, 2, 0], [0, 1, 9, 2], [4, 3, 2, 1]])
    # One other caption is drawn: worse ones are 1 of 3, 1.5 of 3 (the tie counts half), 3 of 3 and none.
    assert r_precision(similarity, distractors=1) == pytest.approx([1 / 3, 2.5 / 3, 1, 0])
    # Two are drawn: C(1, 2) = 0, C(2.5, 2) / C(3, 2) = (2.5 * 1.5 / 2) / 3, 1 and 0.
    assert r_precision(similarity, distractors=2) == pytest.approx([0, 0.625, 1, 0])
    # Single precision, whole numbers and lists have the same orders.
    for same in (similarity.astype(np.float32), similarity / 1.0, similarity.tolist()):
        assert r_precision(same, distractors=2).tolist() == r_precision(similarity, distractors=2).tolist()


@pytest.mark.long
def test_r_precision_equals_simulated_draws():
    similarity = RNG.normal(size=(300, 300)) + 1.5 * np.eye(300)
    exact = r_precision(similarity, distractors=20)
    is_hit = np.zeros((400, 300), bool)
    for draw in is_hit:
        for i in range(300):
            others = RNG.choice(299, 20, replace=False)
            draw[i] = (similarity[i, others + (others >= i)] < similarity[i, i]).all()
    means = is_hit.mean(axis=1)
    assert abs(means.mean() - exact.mean()) < 3 * means.std() / np.sqrt(len(means))


@pytest.mark.parametrize(("first", "second"), [(90, 70), (30, 90), (20, 25)])
def test_frechet_distance_equals_matrix_root(first, second):
    features = [RNG.normal(size=(n, 24)) @ RNG.normal(size=(24, 24)) for n in (first, second)]
    assert frechet_distance(*features) == pytest.approx(_by_eigenvalues(*features), rel=1e-6)
    assert frechet_distance(features[0], features[0]) < 1e-6
    # An image twice changes no covariance's rank.
    assert frechet_distance(np.vstack([features[0]] * 2), np.vstack([features[0]] * 2)) < 1e-6


def _by_eigenvalues(first, second):
    a, b = (np.cov(features.T) for features in (first, second))
    values = np.linalg.eigvals(a @ b).real
    roots = np.sqrt(np.maximum(values, 0)).sum()
    return ((first.mean(axis=0) - second.mean(axis=0)) ** 2).sum() + np.trace(a + b) - 2 * roots


def test_frechet_distance_singular_covariance_is_finite():
    first, second = (RNG.normal(size=(80, 3)) @ RNG.normal(size=(3, 8)) for _ in range(2))
    assert frechet_distance(first, second) == pytest.approx(_by_eigenvalues(first, second), rel=1e-6)


def test_kernel_distance_equals_mean_over_pairs():
    first, second = RNG.normal(size=(6, 4)), RNG.normal(1, 1, size=(5, 4))

    def kernel(x, y):
        return (x @ y / 4 + 1) ** 3

    within_sets = [
        np.mean([kernel(x, y) for i, x in enumerate(feature_set) for j, y in enumerate(feature_set) if i != j])
        for feature_set in (first, second)
    ]
    across = np.mean([kernel(x, y) for x in first for y in second])
    assert kernel_distance(first, second) == pytest.approx(sum(within_sets) - 2 * across)


@pytest.mark.parametrize("block", [1, 3, 7, 8])
def test_kernel_distance_is_independent_of_block_size(monkeypatch, block):
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=(7, 4)), rng.normal(1, 1, size=(12, 4))
    whole = kernel_distance(first, second)
    monkeypatch.setattr(retrieval, "_BLOCK", block)
    assert kernel_distance(first, second) == pytest.approx(whole)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (r_precision, [np.ones((3, 4))]),
        (r_precision, [np.ones((50, 50))]),
        (r_precision, [np.full((200, 200), np.nan)]),
        (frechet_distance, [np.ones((5, 3)), np.ones((5, 4))]),
        (frechet_distance, [np.ones((1, 3)), np.ones((5, 3))]),
        (kernel_distance, [np.full((5, 3), np.inf), np.ones((5, 3))]),
    ],
)
def test_retrieval_invalid_input_is_refused(call, arguments):
    with pytest.raises(InputError):
        call(*arguments)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_retrieval_bias_with_ties_matches_loop(k):
    rng = np.random.default_rng(3)
    similarity, female = rng.integers(0, 6, (30, 40)), rng.random(40) < 0.3
    male = (rng.random(40) < 0.4) & ~female
    expected = []
    for row in similarity:
        first = sorted(range(40), key=lambda j, row=row: (-row[j], j))[:k]
        men, women = sum(male[j] for j in first), sum(female[j] for j in first)
        expected.append((men - women) / (men + women) if men + women else 0)
    assert retrieval.retrieval_bias(similarity, female, k, male=male) == pytest.approx(expected)


def test_retrieval_bias_matches_hand_values():
    # The two nearest of the first text are a man and an image without gender, of the second two without.
    similarity, female, male = [[3, 2, 1, 0], [0, 2, 1, 3]], [False, False, True, False], [True, False, False, False]
    assert retrieval.retrieval_bias(similarity, female, 2, male=male).tolist() == [1, 0]
    # By default all others are men: two men, two men.
    assert retrieval.retrieval_bias(similarity, female, 2).tolist() == [1, 1]
    with pytest.raises(InputError, match="k is 5; female and male need one value"):
        retrieval.retrieval_bias(similarity, female, 5)
