"""Known answers to question 4: when must a state start to err?"""

from statistics import NormalDist

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("That is one head. The noises of H heads are averaged.", replaces="predicted_pairs")
def one_head(K, H, accuracy):
    return 1 + K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "Averaging H independent noises divides the variance by H, not by H squared.", replaces="predicted_pairs"
)
def heads_squared(K, H, accuracy):
    return 1 + H * H * K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "A sign is wrong on one side only: the probability is Phi(z), not that of |noise| < z.",
    replaces="predicted_pairs",
)
def two_sided(K, H, accuracy):
    return 1 + H * K / NormalDist().inv_cdf((1 + accuracy) / 2) ** 2


@mistake("z is a standard deviation, (n - 1)/(HK) a variance: square z.", replaces="predicted_pairs")
def not_squared(K, H, accuracy):
    return 1 + H * K / NormalDist().inv_cdf(accuracy)


@mistake(
    "HK is where exact recall ends for the best keys. Random keys err much earlier.",
    replaces="predicted_pairs",
)
def as_many_as_entries(K, H, accuracy):
    return H * K


@mistake("The formula is the prediction. Draw keys and values, and count.", replaces="measured_pairs")
def formula_as_measurement(K, H, accuracy, seed):
    return 1 + H * K / NormalDist().inv_cdf(accuracy) ** 2


@mistake(
    "Here the heads vote with their signs. They are to be averaged first; the sign of the average counts.",
    replaces="measured_pairs",
)
def signs_averaged(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        k = torch.nn.functional.normalize(torch.randn(max(4, 600 // n), H, n, K, generator=gen), dim=-1)
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        votes = (k @ (k.mT @ v)).sign().mean(1, keepdim=True)
        right = (votes * v > 0).double().mean().item()
    return n


@mistake(
    "All heads have the same keys here. Then they make the same error, and averaging does nothing.",
    replaces="measured_pairs",
)
def same_keys(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        k = torch.nn.functional.normalize(torch.randn(max(4, 600 // n), n, K, generator=gen), dim=-1)
        v = torch.randn(len(k), n, 32, generator=gen).sign()
        right = ((k @ (k.mT @ v)).sign() == v).double().mean().item()
    return n


@mistake(
    "You count a pair only if all its signs are right. The share of right signs is asked.",
    replaces="measured_pairs",
)
def whole_values(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        k = torch.randn(max(8, 600 // n), H, n, K, generator=gen)
        k = k / k.norm(dim=-1, keepdim=True)
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = (k @ (k.mT @ v)).mean(1, keepdim=True)
        right = (read.sign() == v).all(-1).double().mean().item()
    return n


@mistake(
    "These keys are orthogonal while n is at most K, so they do not err before. Draw them at random.",
    replaces="measured_pairs",
)
def orthogonal_keys(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 20)
        base = torch.linalg.qr(torch.randn(max(4, 600 // n), H, K, K, generator=gen)).Q
        k = base.repeat(1, 1, n // K + 1, 1)[:, :, :n]
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = (k @ (k.mT @ v)).mean(1, keepdim=True)
        right = (read.sign() == v).double().mean().item()
    return n


@mistake(
    "With HK pairs exact recall is still possible: give each head K of them. One more is too many.",
    replaces="must_err",
)
def already_at_the_rank(K, H):
    return H * K


@mistake(
    "H heads that each hold one pair too many hold H too many. One too many in all is enough.",
    replaces="must_err",
)
def one_too_many_for_each_head(K, H):
    return H * (K + 1)


@mistake("That is one head. H heads have H states.", replaces="must_err")
def rank_of_one_head(K, H):
    return K + 1


@mistake(
    "K x V entries are in the state, but rank counts: a head's recall has rank K at most.",
    replaces="must_err",
)
def entries_of_the_state(K, H):
    return H * K * K + 1


@also_right(replaces="measured_pairs")
def keys_not_normalised(K, H, accuracy, seed):
    gen = torch.Generator().manual_seed(seed)
    n, right = 2, 1.0
    while right > accuracy:
        n += max(1, n // 25)
        k = torch.nn.functional.normalize(torch.randn(max(8, 900 // n), H, n, K, generator=gen), dim=-1) * K
        v = torch.randn(len(k), 1, n, 32, generator=gen).sign()
        read = torch.einsum("bhnk,bhmk,bmv->bnv", k, k, v[:, 0])
        right = (read * v[:, 0] > 0).double().mean().item()
    return n
