"""Known answers to question 1: what the square root assumes."""

import math

import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake(
    "That is the size for independent q and k. Here the mean of the score is not 0.",
    replaces="predicted_size",
)
def only_the_square_root(K, rho):
    return K**0.5


@mistake(
    "That is the mean of the score alone. At rho = 0 it is 0, and yet scores have size sqrt K.",
    replaces="predicted_size",
)
def only_the_mean(K, rho):
    return rho * K


@mistake(
    "Almost: the variance of one term is not 1. With q = k it is that of a squared normal number, which is 2.",
    replaces="predicted_size",
)
def variance_of_one(K, rho):
    return math.sqrt(rho**2 * K**2 + K)


@mistake(
    "You took |k|^2 to be K. It is so only on average: its variance is 2 K, and it enters the score.",
    replaces="predicted_size",
)
def length_of_the_key_fixed(K, rho):
    return math.sqrt(rho**2 * K**2 + (1 - rho**2) * K)


@mistake(
    "That is the standard deviation. The score has a mean too, and both count.", replaces="predicted_size"
)
def only_the_spread(K, rho):
    return math.sqrt(K * (1 + rho**2))


@mistake("That is the mean square itself. Take the root.", replaces="predicted_size")
def without_the_root(K, rho):
    return rho**2 * K**2 + K * (1 + rho**2)


@mistake("That is the scaled score. The question is about q . k as it is.", replaces="predicted_size")
def already_scaled(K, rho):
    return math.sqrt(rho**2 * K + 1 + rho**2)


@mistake("Samples are a measurement. The prediction is a formula in K and rho.", replaces="predicted_size")
def prediction_by_samples(K, rho):
    gen = torch.Generator().manual_seed(0)
    k, n = torch.randn(2, max(1, 160_000 // K), K, generator=gen, dtype=torch.float64)
    return ((rho * k + (1 - rho**2) ** 0.5 * n) * k).sum(-1).square().mean().sqrt().item()


@mistake(
    "The formula is the prediction. Make the scores of the pairs, and measure those.",
    replaces="measured_size",
)
def formula_as_measurement(k, noise, rho):
    K = k.shape[1]
    return math.sqrt(rho**2 * K**2 + K * (1 + rho**2))


@mistake(
    "The products are squared before they are summed. The score is their sum; square that.",
    replaces="measured_size",
)
def squared_before_the_sum(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).square().sum(-1).mean().sqrt().item()


@mistake("That is the mean of |q . k|. Square first, take the mean, then the root.", replaces="measured_size")
def mean_of_sizes(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(-1).abs().mean().item()


@mistake("That is the standard deviation: torch's std subtracts the mean first.", replaces="measured_size")
def spread_measured(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(-1).std().item()


@mistake(
    "The noise has the wrong size: entries of q have variance 1 only with the root.", replaces="measured_size"
)
def noise_without_the_root(k, noise, rho):
    return ((rho * k + (1 - rho**2) * noise) * k).sum(-1).square().mean().sqrt().item()


@mistake("That is the mean square. Take the root.", replaces="measured_size")
def root_forgotten(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(-1).square().mean().item()


@mistake("You divided by sqrt K. The question is about q . k as it is.", replaces="measured_size")
def scaled_score(k, noise, rho):
    return (
        ((rho * k + (1 - rho**2) ** 0.5 * noise) * k)
        .sum(-1)
        .div(k.shape[1] ** 0.5)
        .square()
        .mean()
        .sqrt()
        .item()
    )


@mistake("The score is a sum over the K entries. You took their mean.", replaces="measured_size")
def mean_over_entries(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).mean(-1).square().mean().sqrt().item()


@mistake(
    "That is the score of the noise. A query is rho k plus a share of the noise.", replaces="measured_size"
)
def noise_alone(k, noise, rho):
    return ((1 - rho**2) ** 0.5 * noise * k).sum(-1).square().mean().sqrt().item()


@mistake(
    "That is the length of the queries. The score is their product with the keys.", replaces="measured_size"
)
def length_of_queries(k, noise, rho):
    return (rho * k + (1 - rho**2) ** 0.5 * noise).square().sum(-1).mean().sqrt().item()


@mistake(
    "One rho^2 K too many: E|k|^4 is K^2 + 2 K, and of the noise comes (1 - rho^2) K, not K.",
    replaces="predicted_size",
)
def noise_of_full_size(K, rho):
    return math.sqrt(rho**2 * (K**2 + 2 * K) + K)


@mistake(
    "rho is not squared. The mean of the score is rho K, and its square is part of the mean square.",
    replaces="predicted_size",
)
def rho_not_squared(K, rho):
    return math.sqrt(rho * (K**2 + K) + K)


@mistake("The noise has the weight sqrt(1 - rho^2). You gave it 1 - rho.", replaces="measured_size")
def noise_by_difference(k, noise, rho):
    return ((rho * k + (1 - rho) * noise) * k).sum(-1).square().mean().sqrt().item()


@mistake(
    "You added up over the pairs. A score is a sum over the K entries of one pair: dim=-1.",
    replaces="measured_size",
)
def summed_over_pairs(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(0).square().mean().sqrt().item()


@mistake(
    "You divided by n - 1. The mean of n squares divides by n: no mean was estimated before.",
    replaces="measured_size",
)
def divided_by_one_less(k, noise, rho):
    score = ((rho * k + (1 - rho**2) ** 0.5 * noise) * k).sum(-1)
    return (score.square().sum() / (len(score) - 1)).sqrt().item()


@mistake(
    "Each query meets the keys of all pairs there. Only the key of its own pair counts.",
    replaces="measured_size",
)
def every_query_with_every_key(k, noise, rho):
    return ((rho * k + (1 - rho**2) ** 0.5 * noise) @ k.T).square().mean().sqrt().item()


@also_right(replaces="predicted_size")
def size_of_terms(K, rho):
    pairs = K * (K - 1) * rho**2  # terms q_c k_c q_d k_d with c != d
    return (pairs + K * (2 * rho**2 + 1)) ** 0.5


@also_right(replaces="measured_size")
def measured_with_numpy(k, noise, rho):
    import numpy as np

    k, noise = np.asarray(k), np.asarray(noise)
    score = np.einsum("sk,sk->s", rho * k + np.sqrt(1 - rho * rho) * noise, k)
    return float(np.sqrt(np.mean(score**2)))
