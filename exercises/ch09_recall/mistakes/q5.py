"""Known answers to question 5: a task that a state cannot solve."""

import math

import numpy as np
import torch

from linattn_exercises.known_mistakes import also_right, mistake


@mistake("That is the sum of signs times keys. It recalls every sign if keys are orthogonal; these are not.")
def the_sum(keys, signs):
    return keys.T @ signs


@mistake("That divides each key by its length squared: right for a single key, or orthogonal ones.")
def scaled_sum(keys, signs):
    return keys.T @ (signs / (keys**2).sum(1))


@mistake("That is the mean. It points the right way for orthogonal keys only.")
def the_mean(keys, signs):
    return keys.T @ signs / len(signs)


@mistake("That is right, but not the shortest: it leaves entries of the state at 0.")
def first_entries(keys, signs):
    n = len(keys)
    state = np.zeros(keys.shape[1])
    state[:n] = np.linalg.solve(keys[:, :n], signs)
    return state


@mistake("That is shrunk, as ridge regression does: k.s is not quite the sign.")
def ridge(keys, signs):
    return keys.T @ np.linalg.solve(keys @ keys.T + 0.01 * np.eye(len(keys)), signs)


@mistake("That takes singular values that are small for 0. Two keys that nearly agree need them.")
def coarse_cutoff(keys, signs):
    return np.linalg.pinv(keys, rcond=1e-3) @ signs


@mistake("That has the inverse of the wrong table: of [K, K], which is singular for fewer keys than K.")
def covariance(keys, signs):
    table = keys.T @ keys
    return np.linalg.solve(table + 1e-3 * np.trace(table) * np.eye(len(table)), keys.T @ signs)


def _task(K):
    keys = np.vstack([np.eye(K) + 1, (np.eye(K) + 1).mean(0)])
    return keys, np.append(np.ones(K), -1.0), np.append(np.full(K, 1 / K), 1.0)


@mistake("Two keys in one direction are linearly dependent; keys have to be in general position.", "design")
def two_in_one_direction(K):
    rest = np.eye(K)[1:] + 1
    keys = np.vstack([rest, np.ones(K), 2 * np.ones(K)])
    return keys, np.append(np.ones(K), -1.0), np.append(np.zeros(K - 1), [2.0, 1.0])


@mistake("Keys must have entries above 0.", "design")
def unit_vectors(K):
    keys = np.vstack([np.eye(K), np.full(K, 1 / K)])
    return keys, np.append(np.ones(K), -1.0), np.append(np.full(K, 1 / K), 1.0)


@mistake("A smaller task will do: K + 1 pairs.", "design")
def too_many(K):
    keys, signs, proof = _task(K)
    more = keys[:1] + 0.1 * np.arange(1, K + 1) ** 2
    return np.vstack([keys, more]), np.append(signs, 1.0), np.append(proof, 0.0)


@mistake("Up to K keys can be stored with any signs, so their combination cannot be 0.", "design")
def too_few(K):
    return np.eye(K) + 1, np.where(np.arange(K) % 2, -1.0, 1.0), np.ones(K)


@mistake("All signs are the same here: then a state of ones solves it, since keys are above 0.", "design")
def equal_signs(K):
    keys, _, proof = _task(K)
    return keys, np.ones(K + 1), proof


@mistake("The proof has a number below 0. The signs belong to the keys, not to the proof.", "design")
def negative_proof(K):
    keys, signs, proof = _task(K)
    return keys, signs, proof * signs


@mistake("The proof is 0 everywhere, and proves nothing.", "design")
def empty_proof(K):
    keys, signs, proof = _task(K)
    return keys, signs, 0 * proof


@mistake(
    "The sum in the proof is not 0. Any K keys are a basis: solve for the numbers of the last one.", "design"
)
def random_keys(K):
    keys = np.random.default_rng(K).uniform(1.0, 2.0, (K + 1, K))
    return keys, np.append(np.ones(K), -1.0), np.ones(K + 1)


@mistake("Signs are 1 and -1.", "design")
def zero_as_sign(K):
    keys, signs, proof = _task(K)
    return keys, (signs + 1) / 2, proof


@mistake("That counts the ways. Divide by 2^n.", "solvable")
def number_of_ways(n, K):
    return float(2 * sum(math.comb(n - 1, i) for i in range(min(n, K))))


@mistake("That is half of it: each way has a mirror image, with the state's sign changed.", "solvable")
def without_mirror(n, K):
    return sum(math.comb(n - 1, i) for i in range(min(n, K))) / 2**n


@mistake("That sums up to K. With K dimensions there are K terms, from 0 to K - 1.", "solvable")
def one_term_too_many(n, K):
    return 2 * sum(math.comb(n - 1, i) for i in range(min(n, K + 1))) / 2**n


@mistake("That has one term too few. With K dimensions there are K terms, from 0 to K - 1.", "solvable")
def one_term_too_few(n, K):
    return 2 * sum(math.comb(n - 1, i) for i in range(min(n, K - 1))) / 2**n


@mistake("The first key splits nothing off: it is n - 1 keys that are added to it.", "solvable")
def n_in_place_of_n_less_one(n, K):
    return sum(math.comb(n, i) for i in range(min(n + 1, K))) / 2**n


@mistake(
    "That is 1 up to K keys and 0 beyond. Beyond K some ways can still be solved, half of them at 2 K.",
    "solvable",
)
def all_or_nothing(n, K):
    return float(n <= K)


@mistake("That is 1 up to 2 K and 0 beyond, which it tends to for large K.", "solvable")
def step_at_two_K(n, K):
    return 1.0 if n < 2 * K else 0.5 if n == 2 * K else 0.0


@also_right("store")
def by_least_squares(keys, signs):
    return np.linalg.lstsq(keys, signs, rcond=None)[0]


@also_right("store")
def by_gram(keys, signs):
    return keys.T @ np.linalg.solve(keys @ keys.T, signs)


@also_right("design")
def random_keys_and_their_sum(K):
    keys = torch.rand(K, K, generator=torch.Generator().manual_seed(K)).double() + 5 * torch.eye(K)
    keys = torch.cat([keys, keys.sum(0, keepdim=True)]) + 0.0
    return keys, [1] * K + [-1], [1] * (K + 1)


@also_right("solvable")
def by_recursion(n, K):
    ways = [2] * K
    for _ in range(n - 1):
        ways = [ways[k] + (ways[k - 1] if k else 0) for k in range(K)]
    return ways[-1] / 2**n


@also_right("solvable")
def by_the_binomial(n, K):
    return sum(math.comb(n - 1, i) for i in range(min(K, n))) / 2 ** (n - 1)
