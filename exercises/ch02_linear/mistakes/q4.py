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


@mistake(
    "That is the prediction solved for the share. Store the values, read them, and count.",
    replaces="share_right",
)
def formula_as_measurement(x, v):
    H, n, K = x.shape
    return NormalDist().cdf((H * K / (n - 1)) ** 0.5)


@mistake(
    "Here the heads vote with their signs. They are to be averaged first; the sign of the average counts.",
    replaces="share_right",
)
def signs_averaged(x, v):
    k = x / x.norm(dim=-1, keepdim=True)
    votes = (k @ (k.mT @ v)).sign().mean(0)
    return (votes * v > 0).double().mean().item()


@mistake(
    "That is the share of each head on its own, averaged. Average what they read, then take the sign.",
    replaces="share_right",
)
def shares_averaged(x, v):
    k = x / x.norm(dim=-1, keepdim=True)
    return ((k @ (k.mT @ v)).sign() == v).double().mean().item()


@mistake(
    "You count a pair only if all its signs are right. The share of right signs is asked.",
    replaces="share_right",
)
def whole_values(x, v):
    k = x / x.norm(dim=-1, keepdim=True)
    return ((k @ (k.mT @ v)).mean(0).sign() == v).all(-1).double().mean().item()


@mistake(
    "The keys have length 1; here they still have the length that they were drawn with.",
    replaces="share_right",
)
def keys_not_scaled(x, v):
    return ((x @ (x.mT @ v)).mean(0).sign() == v).double().mean().item()


@mistake(
    "You took entry by entry over the pairs to length 1. A key is a row: dim=-1.", replaces="share_right"
)
def scaled_along_the_pairs(x, v):
    k = x / x.norm(dim=1, keepdim=True)
    return ((k @ (k.mT @ v)).mean(0).sign() == v).double().mean().item()


@mistake("That is the share of wrong signs.", replaces="share_right")
def share_wrong(x, v):
    k = x / x.norm(dim=-1, keepdim=True)
    return ((k @ (k.mT @ v)).mean(0).sign() != v).double().mean().item()


@mistake(
    "All heads read from the first one's state. Each has its own keys and its own state.",
    replaces="share_right",
)
def first_head_alone(x, v):
    k = x[0] / x[0].norm(dim=-1, keepdim=True)
    return ((k @ (k.mT @ v)).sign() == v).double().mean().item()


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


@mistake(
    "The pair that is read makes no noise for itself, in all heads together: it counts once, not once for each.",
    replaces="predicted_pairs",
)
def heads_times_one_head(K, H, accuracy):
    return H * (1 + K / NormalDist().inv_cdf(accuracy) ** 2)


@also_right(replaces="predicted_pairs")
def noise_of_all_pairs(K, H, accuracy):
    return H * K / NormalDist().inv_cdf(accuracy) ** 2  # one pair less, as good as the approximation is


@also_right(replaces="predicted_pairs")
def whole_pairs(K, H, accuracy):
    return round(1 + H * K / NormalDist().inv_cdf(accuracy) ** 2)


@also_right(replaces="share_right")
def by_scores_of_pairs(x, v):
    k = torch.nn.functional.normalize(x, dim=-1)
    score = torch.einsum("hik,hjk->ij", k, k)  # of all heads together: a factor does not change a sign
    return float((v * torch.einsum("ij,jv->iv", score, v) > 0).double().mean())
