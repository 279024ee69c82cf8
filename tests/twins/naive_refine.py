"""The slow, readable twin of refinement: groups as plain lists, and every cost as the difference of two losses.

It draws the same random numbers and asks the same questions in the same order, but knows no centres, journals or
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
        #: Numbers that a new group may still get: one change holds on to those that it empties.
        self.unused = len(X) // k + 2 - len(self.groups)

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
        new: Group = []
        for i in order[first:]:
            self.take(group, i)
            new.append(i)
        self.groups.append(new)
        self.unused -= 1

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
                self.rebuild(x, random.below(3), limit, random)
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

    def rebuild(self, x: int, kind: int, limit: float, random: Random) -> None:
        """Dissolve x's group, gather a new one or regroup several; put everything back where that costs too much."""
        saved, unused = [list(group) for group in self.groups], self.unused
        before = self.loss()
        loose = [self.dissolve, self.gather, self.regroup][kind](x, random)
        if loose is not None:
            for i in range(len(loose)):
                if self.loss() - before >= limit:
                    break
                q = i + random.below(len(loose) - i)
                loose[i], loose[q] = loose[q], loose[i]
                if not self.insert(loose[i]):
                    loose = None
                    break
        if loose is not None and self.loss() - before < limit and sum(map(len, self.groups)) == len(self.X):
            self.unused = unused + len(saved) - sum(1 for group in self.groups if group)
            self.groups = [group for group in self.groups if group]
        else:
            self.groups, self.unused = saved, unused

    def dissolve(self, x: int, random: Random) -> list[int] | None:
        group = self.member_of(x)
        loose = group[::-1]
        group.clear()
        return loose

    def gather(self, x: int, random: Random) -> list[int] | None:
        if self.unused == 0:
            return None
        new: Group = []
        touched: list[Group] = []
        y, r = x, -1
        while len(new) < self.k:
            if y not in new:
                group = self.member_of(y)
                if not any(group is other for other in touched):
                    touched.append(group)
                self.take(group, y)
                new.append(y)
            r += 1
            while r < len(self.near[x]) and random.below(8) == 0:
                r += 1
            if len(new) < self.k:
                if r >= len(self.near[x]):
                    return None
                y = self.near[x][r]
        self.groups.append(new)
        self.unused -= 1
        loose = []
        for group in touched:
            if len(group) < self.k:
                loose += group[::-1]
                group.clear()
        return loose

    def regroup(self, x: int, random: Random) -> list[int]:
        wanted = 2 + random.below(3)
        ruined: list[Group] = []
        loose: list[int] = []
        for y in (x, *self.near[x]):
            group = self.group_of(y)
            if group is not None and len(ruined) < wanted:
                loose += group[::-1]
                group.clear()
                ruined.append(group)
        while len(loose) >= self.k and (ruined or self.unused):
            new = ruined.pop(0) if ruined else self.opened()
            at = random.below(len(loose))
            z = loose[at]
            for i in range(self.k):
                if i > 0:
                    at = min(range(len(loose)), key=lambda t: math.dist(self.X[z], self.X[loose[t]]))
                # Those before what is taken keep their places, as in a list whose front moves on.
                loose[0], loose[at] = loose[at], loose[0]
                new.append(loose.pop(0))
        return loose

    def opened(self) -> Group:
        self.groups.append([])
        self.unused -= 1
        return self.groups[-1]

    def insert(self, x: int) -> bool:
        """Put a loose record where, of its neighbours' groups, it costs least."""
        found = [self.group_of(y) for y in self.near[x]]
        room = [group for group in found if group is not None and len(group) < 2 * self.k]
        if not room:
            return False
        group = min(room, key=lambda b: loss(self.X, [*b, x]) - loss(self.X, b))
        group.append(x)
        if len(group) >= 2 * self.k:
            if self.unused == 0:
                return False
            self.split(group)
        return True
