"""The slow, readable twin of refinement: groups as plain lists, and every cost as the difference of two losses.

It draws the same random numbers and asks the same questions in the same order, but knows no centres, drafts or
formulas for moves: what a change costs is the loss after it less the loss before it, both computed from the records.
Where no two costs are tied, it must end with the very groups of the kernels, down to the order of members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

Point = Sequence[float]
Group = list[int]


def loss(X: Sequence[Point], members: Iterable[int]) -> float:
    """The sum of squared distances to the members' mean."""
    rows = [X[i] for i in members]
    if not rows:
        return 0.0
    means = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    return math.fsum((x - m) ** 2 for row in rows for x, m in zip(row, means, strict=True))


class Random:
    """The generator xorshift64*, on Python's whole numbers; ``state`` as the kernels keep it."""

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, count: int) -> int:
        x = self.state
        x ^= x >> 12
        x ^= x << 25 & 2**64 - 1
        x ^= x >> 27
        self.state = x
        return (x * 2685821657736338717 % 2**64 >> 33) * count >> 31


class Refinement:
    """Groups of k to 2k-1 records that are being improved."""

    def __init__(self, X: Sequence[Point], labels: Sequence[int], near: Sequence[Sequence[int]], k: int) -> None:
        self.X, self.near, self.k = X, near, k
        self.groups: list[Group] = [[] for _ in range(max(labels) + 1)]
        for i, label in enumerate(labels):
            self.groups[label].append(i)

    def group_of(self, x: int) -> Group | None:
        return next((group for group in self.groups if x in group), None)

    def member_of(self, x: int) -> Group:
        group = self.group_of(x)
        assert group is not None
        return group

    def loss(self) -> float:
        return math.fsum(loss(self.X, group) for group in self.groups)

    @staticmethod
    def take(group: Group, x: int) -> None:
        """Take a record out; the last one takes its place."""
        group[group.index(x)] = group[-1]
        group.pop()

    def after_move(self, x: int, a: Group, b: Group) -> float:
        X = self.X
        return loss(X, [i for i in a if i != x]) + loss(X, [*b, x]) - loss(X, a) - loss(X, b)

    def after_swap(self, x: int, z: int, a: Group, b: Group) -> float:
        after = loss(self.X, [z if i == x else i for i in a]) + loss(self.X, [x if i == z else i for i in b])
        return after - loss(self.X, a) - loss(self.X, b)

    def move(self, x: int, a: Group, b: Group) -> None:
        self.take(a, x)
        b.append(x)
        if len(b) >= 2 * self.k:
            self.split(b)

    @staticmethod
    def swap(x: int, z: int, a: Group, b: Group) -> None:
        a[a.index(x)], b[b.index(z)] = z, x

    def split(self, group: Group) -> None:
        """Two means from two far members, thrice; what belongs to the second leaves."""
        X, ids = self.X, list(group)
        middle = [math.fsum(column) / len(ids) for column in zip(*(X[i] for i in ids), strict=True)]
        u = X[max(ids, key=lambda i: math.dist(X[i], middle))]
        v = X[max(ids, key=lambda i: math.dist(X[i], u))]
        for _ in range(3):
            score = [math.dist(X[i], u) ** 2 - math.dist(X[i], v) ** 2 for i in ids]
            first = min(max(sum(s < 0 for s in score), self.k), len(ids) - self.k)
            order = [i for _, i in sorted(zip(score, ids, strict=True), key=lambda pair: pair[0])]
            u, v = (
                [math.fsum(column) / len(part) for column in zip(*(X[i] for i in part), strict=True)]
                for part in (order[:first], order[first:])
            )
        group[:] = order[:first]
        self.groups.append(order[first:])

    def exchange(self, x: int, b: Group, limit: float, random: Random) -> None:
        a = self.member_of(x)
        if len(a) > self.k and len(b) < 2 * self.k and self.after_move(x, a, b) < limit:
            self.move(x, a, b)
            return
        z = b[random.below(len(b))]
        if self.after_swap(x, z, a, b) < limit:
            self.swap(x, z, a, b)

    def sweep(self, temperature: float, every: int, quantiles: Sequence[float], random: Random) -> None:
        for x in range(len(self.X)):
            limit = temperature * quantiles[random.below(len(quantiles))]
            if every > 0 and random.below(every) == 0:
                self.rebuild(x, random.below(2) > 0, limit, random)
                continue
            y = self.near[x][random.below(len(self.near[x]))]
            a, b = self.member_of(x), self.member_of(y)
            if a is b:
                continue
            if random.below(2) > 0:
                self.exchange(x, b, limit, random)
            else:
                self.exchange(y, a, limit, random)

    def descend(self, most: int, tolerance: float) -> int:
        for s in range(most):
            if not sum([self.best_change(x, tolerance) for x in range(len(self.X))]):
                return s + 1
        return most

    def best_change(self, x: int, tolerance: float) -> bool:
        """Of all moves of x to a neighbour's group, and swaps with a member of one, make the best."""
        a = self.member_of(x)
        changes: list[tuple[float, Callable[[], None]]] = []
        for y in self.near[x]:
            b = self.member_of(y)
            if b is a:
                continue
            if len(a) > self.k and len(b) < 2 * self.k:
                changes.append((self.after_move(x, a, b), lambda b=b: self.move(x, a, b)))  # type: ignore[misc]
            for z in b:
                changes.append((self.after_swap(x, z, a, b), lambda b=b, z=z: self.swap(x, z, a, b)))  # type: ignore[misc]
        cost, make = min(changes, key=lambda change: change[0], default=(0.0, None))
        if make is None or not cost < -tolerance:
            return False
        make()
        return True

    def rebuild(self, x: int, regroups: bool, limit: float, random: Random) -> None:
        """Gather a new group around x or regroup what is near, on a copy, which is kept if it costs little enough."""
        trial = Trial(self, limit)
        if trial.regroup(x, random) if regroups else trial.gather(x, random):
            self.groups = [group for group in trial.groups if group]
            for group in list(self.groups):
                if len(group) >= 2 * self.k:
                    self.split(group)


class Trial:
    """The groups as one change would leave them: those that there are, less who leaves them, and new ones."""

    def __init__(self, now: Refinement, limit: float) -> None:
        self.now, self.limit = now, limit
        self.X, self.near, self.k = now.X, now.near, now.k
        self.groups = [list(group) for group in now.groups]
        self.new: list[Group] = []
        self.before = now.loss()

    def cost(self) -> float:
        """What the change costs so far; records that have no place yet cost nothing."""
        return math.fsum(loss(self.X, group) for group in [*self.groups, *self.new]) - self.before

    def number_of(self, x: int) -> int:
        """Which of the groups x was in before the change."""
        return next(a for a, group in enumerate(self.now.groups) if x in group)

    def distance(self, x: int, y: int) -> float:
        return math.dist(self.X[x], self.X[y])

    def gather(self, x: int, random: Random) -> bool:
        taken: list[int] = []
        y, r = x, -1
        while True:
            if y not in taken:
                taken.append(y)
            if len(taken) == self.k:
                break
            r += 1
            while r < len(self.near[x]) and random.below(8) == 0:
                r += 1
            if r >= len(self.near[x]):
                return False
            y = self.near[x][r]
        touched = list(dict.fromkeys(map(self.number_of, taken)))
        rest = {a: [z for z in self.now.groups[a] if z not in taken] for a in touched}
        loose = [z for a in touched if len(rest[a]) < self.k for z in rest[a]]
        if len(loose) > 2 * self.k:
            return False
        own = {z: self.distance_to_mean(z) for z in loose}
        for z in (*taken, *loose):
            self.now.take(self.groups[self.number_of(z)], z)
        self.new = [taken]
        return self.cost() + math.fsum(own.values()) < self.limit and self.place(loose, random)

    def distance_to_mean(self, z: int) -> float:
        """z's squared distance to the mean of its group before the change."""
        rows = [self.X[i] for i in self.now.member_of(z)]
        means = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        return math.dist(self.X[z], means) ** 2

    def regroup(self, x: int, random: Random) -> bool:
        wanted = 2 + random.below(2) * random.below(3)
        ruined: list[int] = []
        for y in (x, *self.near[x]):
            if len(ruined) < wanted and self.number_of(y) not in ruined:
                ruined.append(self.number_of(y))
        loose = [z for a in ruined for z in self.now.groups[a]]
        lost = math.fsum(loss(self.X, self.now.groups[a]) for a in ruined)
        for a in ruined:
            self.groups[a] = []
        while len(loose) >= self.k:
            at = random.below(len(loose))
            z = loose[at]
            if len(loose) > self.k:
                for i in range(self.k):
                    if i > 0:
                        at = min(range(i, len(loose)), key=lambda t: self.distance(z, loose[t]))
                    loose[i], loose[at] = loose[at], loose[i]
            self.new.append(loose[: self.k])
            del loose[: self.k]
            if not self.cost() < self.limit:
                return False
        return self.place(loose, random) and abs(self.cost()) > 1e-9 * lost

    def place(self, loose: list[int], random: Random) -> bool:
        """Give each loose record to a new group or one that a neighbour of it was in, where it costs least."""
        for i in range(len(loose)):
            q = i + random.below(len(loose) - i)
            loose[i], loose[q] = loose[q], loose[i]
            z = loose[i]
            near = [self.groups[self.number_of(y)] for y in self.near[z]]
            room = [group for group in [*self.new, *near] if 0 < len(group) < 2 * self.k]
            if not room:
                return False
            min(room, key=lambda b: loss(self.X, [*b, z]) - loss(self.X, b)).append(z)
            if not self.cost() < self.limit:
                return False
        self.groups += self.new
        self.new = []
        return self.cost() < self.limit
