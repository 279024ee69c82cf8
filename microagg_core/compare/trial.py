"""Try a setting on drawn blocks: group them as a release would, and measure what that loses, gives away and takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from microagg_core.arrays import Bools, Floats, Ints
from microagg_core.blocks.blanking import BlankedRecords, missing_of, move_records
from microagg_core.blocks.masking import NO_DEMANDS, Blocks, Demanded, Masked, loss_scale, mask_blocks
from microagg_core.compare.drawing import PlannedTrial
from microagg_core.compiling import compile_parts
from microagg_core.data.formats.writing import released_format
from microagg_core.data.kinds.contract import Claim
from microagg_core.data.kinds.encoding import Encoding
from microagg_core.data.tables.slices import RECORD
from microagg_core.errors import DataError, MicroaggError, sanitized
from microagg_core.group.bounds import gap_percent
from microagg_core.group.metrics.losses import percent
from microagg_core.group.metrics.moments import MOST_OF_WEIGHT, Groups, Moments
from microagg_core.group.metrics.statistics import LossStatistics, losses_of, significant
from microagg_core.inspect.candidates import Candidates
from microagg_core.inspect.checks.known import known_cure
from microagg_core.inspect.contract import share
from microagg_core.inspect.distributions import Distribution
from microagg_core.inspect.edits import EditCount, count_of
from microagg_core.inspect.exposure import Exposure, asking_share, expose
from microagg_core.inspect.gate import limits
from microagg_core.inspect.kanonymity import SpreadCounter
from microagg_core.inspect.limits.inference import CertainValues
from microagg_core.inspect.limits.linkage import EVERY_COLUMN, RightLinks
from microagg_core.inspect.risk.inference import Inference
from microagg_core.inspect.risk.labels import label_lines
from microagg_core.kernels.tools.hashing import mix_words
from microagg_core.plain import PlainFloats
from microagg_core.release.context import Context
from microagg_core.release.planned import PLANNED, Planned, load_planned
from microagg_core.release.planning import undeclared_codes
from microagg_core.release.step import JsonOutput, Step, Work
from microagg_core.release.steps.demands import PartitionDemands, needs_protection, protection_of
from microagg_core.release.steps.drawn_rows import DRAFTS, DRAWN_ROWS, Draft, read_drawn_rows
from microagg_core.release.steps.measuring import proved_figures
from microagg_core.spec.edits import Comparison

#: What is grouped before the clock starts, so that kernels are loaded by then: as much as takes so long, by the model.
_LOADING_SECONDS = 0.5
#: Digits of seconds: more of them differ from one time to the next.
_DIGITS_OF_TIME = 3
#: Rounding that adds less to a column's loss is worth no sentence.
ROUNDING_ADDS = 0.05


@dataclass(frozen=True)
class ColumnExpected:
    """Share of records whose value in a confidential column would be certain, and that by chance."""

    records_certain: float
    by_chance: float | None


@dataclass(frozen=True)
class CostOfWeights:
    """Cost of the rule that no record has more than half of the weight of its group.

    Of the weighted variance of quasi-identifiers the loss in percent, with the rule and without; and of groups that are
    made without it, the share that would break it.
    """

    l_sse: float
    l_sse_without: float
    broken_without: float


@dataclass(frozen=True)
class Expected:
    """Expected loss (percent) and risk (shares) of a release with a setting; for the operator alone."""

    k: int
    algorithm: str
    parameters: dict[str, float | str]
    refine: str | float
    #: Released by a plan with this k, and not.
    records: int
    withheld: int
    #: What this is known from: all that would be released, or some of it.
    is_whole: bool
    drawn_records: int
    drawn_blocks: int
    l_sse: float
    #: By so much the loss is off, mostly, as it is of some blocks; a standard error.
    l_sse_error: float | None
    #: Losses with other seeds, where those would make other groups.
    l_sse_of_seeds: tuple[float, ...]
    #: No groups lose less than this sum of squared errors (of all that would be released); and the share of the loss
    #: that could be avoided at most, in percent. None where nobody had the time to prove it.
    lower_bound: float | None
    gap: float | None
    #: Of the drawn records.
    groups: int
    smallest: int
    largest: int
    #: CPU seconds of the drawn blocks, compiling aside; and of a whole release, by the models at the pace seen here.
    seconds: float
    whole_seconds: float
    pace: float
    own_nearest: float | None
    expected_correct: float | None
    by_chance: float | None
    unique_before: float | None
    certain: dict[str, ColumnExpected]
    #: Limits of protect: that a release would not keep to, in words.
    broken: tuple[str, ...]
    #: What a careful operator would look at in the records that were grouped, in words.
    remarks: tuple[str, ...] = ()
    #: For the k asked, where records have survey weights.
    weights: CostOfWeights | None = None


@dataclass(frozen=True)
class Trial:
    """Result of a trial: figures, or why there are none."""

    expected: Expected | None
    reason: str = ""
    draft: int = 0
    #: Block by block, where these are some of all: what each stands for, loses, and could lose.
    weights: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))
    lost: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))
    squares: PlainFloats = dataclasses.field(default_factory=lambda: np.zeros(0))

    def error_of_difference(self, other: Trial) -> float:
        """Estimate how far the difference of two losses is off, as both are of some blocks: the same, or others."""
        if self.expected is None or other.expected is None or self.expected.is_whole:
            return 0.0
        if self.draft == other.draft:
            return standard_error(self.weights, self.lost - other.lost, self.squares) or 0.0
        return float(np.hypot(self.expected.l_sse_error or 0.0, other.expected.l_sse_error or 0.0))


def standard_error(weights: Floats, lost: Floats, squares: Floats | Ints) -> float | None:
    """Estimate by how much a loss is off that is known from some blocks, in percent; None of one block."""
    n, whole = len(weights), float(np.sum(weights * squares))
    if n < 2 or not whole:
        return None
    off = weights * (lost - squares * (np.sum(weights * lost) / whole))
    return 100.0 * float(np.sqrt(np.sum(off * off) * n / (n - 1))) / whole


#: What is to be tried, a trial for each task; and what came of each.
PLANNED_TRIALS = JsonOutput("planned-trials", tuple[PlannedTrial, ...])
TRIALS = JsonOutput("trials", Trial)


def try_setting(work: Work) -> int:
    """Group the drawn rows by one setting, and measure."""
    planned, trial = load_planned(work), work.load(PLANNED_TRIALS)[work.number]
    compile_parts(trial.setting.parts(trial.proves, needs_protection(planned.context)))
    try:
        made = _Trying(work, planned, trial).result()
    except DataError as error:
        made = Trial(None, error.message)
    except MicroaggError:
        raise
    except Exception as error:  # a release with this setting would end with it; others need not
        made = Trial(None, sanitized(error, "grouping with these settings").message)
    work.write(TRIALS, made)
    return made.expected.drawn_records if made.expected else 0


TRY = Step(
    name="expect",
    stage="report",
    per="setting",
    does=try_setting,
    knows=(*PLANNED, DRAFTS, PLANNED_TRIALS),
    all=(DRAWN_ROWS,),
    writes=(TRIALS,),
)


def _ticks_of(encoding: Encoding, table: pa.Table) -> tuple[list[NDArray[Any]], Bools]:
    return encoding.ticks([table[f"q{j}"] for j in range(len(encoding.kinds))])


def _rows_by_block(work: Work, planned: Planned, draft: Draft, number: int) -> tuple[pa.Table, Ints]:
    """Read the rows of a draft's blocks that have at least k, and the place of each row's block in the draft."""
    table, place = read_drawn_rows(work, number)
    if draft.moves:
        ticks, missing = _ticks_of(planned.encoding, table)
        points = planned.encoding.points(planned.encoding.offsets_of(ticks), missing)
        place = move_records(points, place, draft.moves, missing_of(draft.patterns or [], missing.shape[1]))
    # The size of a piece is known from a sample: it may have fewer records than were thought.
    order = np.flatnonzero(np.bincount(place, minlength=len(draft.blocks))[place] >= draft.k)
    order = order[np.argsort(place[order], kind="stable")]
    if not len(order):
        raise DataError(f"no block that was looked at has k={draft.k} records")
    table = table.take(pa.array(order)).combine_chunks()
    form = released_format(planned.context.spec.output)
    for j in range(len(planned.context.schema.confidential)):
        released = form.released_form(table.select([f"c{j}"]))[f"c{j}"]
        table = table.set_column(table.column_names.index(f"c{j}"), f"c{j}", released)
    return table, place[order]


class RoundingLoss:
    """Squared errors of columns that are rounded to their own type, beside those with a decimal more."""

    def __init__(self, encoding: Encoding, besides: Container[str] = ()) -> None:
        """Look at whole numbers, ``besides`` those that may be none."""
        self._encoding = encoding
        kinds = enumerate(zip(encoding.kinds, encoding.origins, strict=True))
        self._columns = [
            (j, kind, finer, origin)
            for j, (kind, origin) in kinds
            if kind.name not in besides and (finer := kind.finer) is not None
        ]
        self._sums = np.zeros((len(self._columns), 2))

    def add(self, masked: Masked) -> None:
        """Add blocks; of missing values both errors are 0."""
        ticks = masked.blocks.ticks
        groups = Groups.of(masked.labels, self._encoding.weights_of(ticks))
        for sums, (j, kind, finer, origin) in zip(self._sums, self._columns, strict=True):
            came, rounded = kind.offsets(ticks[j], origin), kind.released_offsets(masked.representatives[j], origin)
            exact = finer.released_offsets(finer.representatives(ticks[j], groups), origin)
            sums += [np.square(came - after[masked.labels]).sum() for after in (rounded, exact)]

    def in_words(self) -> Iterator[str]:
        for (_, kind, finer, _), (rounded, exact) in zip(self._columns, self._sums.tolist(), strict=True):
            if rounded > (1.0 + ROUNDING_ADDS) * exact:
                adds = f"{100 * (rounded / exact - 1):.0f} %" if exact else "all there is"
                yield (
                    f"rounding {kind.name!r} to whole numbers adds {adds} to its loss; rounding: "
                    f"{{{kind.name}: {finer.rule}}} keeps a decimal more, released as {finer.released_type}"
                )


class _Trying:
    """Group the rows of a draft by a setting, and measure what that loses, gives away and takes."""

    def __init__(self, work: Work, planned: Planned, trial: PlannedTrial) -> None:
        context, encoding = planned.context, planned.encoding
        self.planned, self.trial = planned, trial
        self.draft = draft = work.load(DRAFTS)[trial.draft]
        self.table, place = _rows_by_block(work, planned, draft, trial.draft)
        self.ticks, self.missing = _ticks_of(encoding, self.table)
        #: Losses are standardized by the records that are released, as far as these are known.
        self.scale = loss_scale(encoding, self._moments() if draft.is_whole else planned.survey.moments)
        self.steady = self.scale.steadied()  # for refinement
        if draft.patterns is not None:
            made = BlankedRecords.of(encoding, self.ticks, self.missing, place, draft.patterns)
            self.ticks, self.missing = made.ticks, made.missing
        #: The blocks that have rows; their places in the draft, and how many each has.
        self.places = np.unique(place)
        numbers = np.array([draft.blocks[number].block for number in self.places.tolist()])
        self.blocks = replace(Blocks.of(place, self.ticks, self.missing), numbers=numbers)
        self.sizes = np.diff(self.blocks.starts)
        self.spec = trial.setting.applied(context.spec)
        self.demands: PartitionDemands | None = None
        if self.spec.protect is not None or context.schema.weight is not None:
            columns = range(len(context.schema.confidential) if self.spec.protect is not None else 0)
            used = [Distribution.of(self.table[f"c{j}"]) for j in columns]
            self.demands = PartitionDemands.among(context, self.table, used)
        #: What a sum over a block's records counts in the mean over all records that would be released, block by block.
        self.weights: Floats = np.full(len(self.places), 1.0 / len(place))
        if not draft.is_whole:
            drawn = np.array([draft.blocks[number].weight for number in self.places.tolist()])
            self.weights = drawn / drawn.sum() / self.sizes

    def _moments(self) -> list[Moments]:
        columns = zip(self.planned.encoding.kinds, self.ticks, self.missing.T, strict=True)
        return [kind.moments(ticks[~missing]) for kind, ticks, missing in columns]

    def result(self) -> Trial:
        """Group, and measure everything."""
        self._load_kernels()
        stretch = self.steady.least_stretch(self.scale)
        masked = self._masked(self.spec.seed, proving=self.trial.proves)
        lines = masked.audit(self.scale, stretch)
        added = RoundingLoss(self.planned.encoding, undeclared_codes(self.spec, self.planned.survey))
        added.add(masked)
        could_be_lost = np.sum(~self.missing & (np.array(self.scale.deviations) > 0), axis=1)
        squares, lost = self.blocks.sums(could_be_lost), np.asarray(lines["sse"])
        shown = self._shown(masked.released)
        exposure = self._exposure(shown)
        setting, draft = self.trial.setting, self.draft
        expected = Expected(
            k=draft.k,
            algorithm=setting.algorithm,
            parameters=setting.parameters,
            refine=setting.refine,
            records=draft.records,
            withheld=draft.withheld,
            is_whole=draft.is_whole,
            drawn_records=len(self.missing),
            drawn_blocks=len(self.places),
            **self._losses(masked.statistics(self.scale), lines, lost, squares),
            groups=len(exposure.sizes),
            smallest=int(exposure.sizes.min()),
            largest=int(exposure.sizes.max()),
            **self._times(masked.seconds),
            **self._risks(exposure),
            remarks=(*added.in_words(), *self._edits(shown), *self._known(shown)),
            weights=self._cost_of_weights(masked) if draft.k == self.planned.context.spec.k else None,
        )
        if draft.is_whole:
            return Trial(expected, draft=self.trial.draft)
        return Trial(expected, "", self.trial.draft, self.weights, lost, squares.astype(np.float64))

    def _model_seconds(self, rows: int) -> float:
        setting, p = self.trial.setting, len(self.planned.encoding.kinds)
        return setting.seconds(rows, p) if self.trial.proves else setting.grouping_seconds(rows, p)

    def _masked(self, seed: int, *, proving: bool) -> Masked:
        """Group all blocks by a seed."""
        spec = self.spec if seed == self.spec.seed else self.spec.model_copy(update={"seed": seed})
        encoding = self.planned.encoding
        return mask_blocks(spec, encoding, self.steady, self.blocks, self._demanded, proving=proving)

    def _demanded(self, rows: slice) -> Demanded:
        return Demanded(*self.demands.of_block(rows.start, rows.stop)) if self.demands else NO_DEMANDS

    def _cost_of_weights(self, masked: Masked) -> CostOfWeights | None:
        """Group the drawn blocks once more, the weight neither in the metric nor held by groups, and compare."""
        if self.planned.context.schema.weight is None:
            return None
        free, steady = self.planned.encoding.without_weight(), self.steady.without_weight()
        without = mask_blocks(self.spec, free, steady, self.blocks, proving=False)
        of_records = _Weighed(self.scale.without_weight(), self.ticks, self.missing)
        squares = self.blocks.sums(of_records.squares)
        lost = np.stack([self.blocks.sums(of_records.lost(made.released)) for made in (masked, without)], axis=1)
        shares = Groups.of(without.labels).greatest_shares(of_records.weights)
        whole = self._mean(squares)
        with_rule, without_rule = (significant(percent(self._mean(of), whole), 3) for of in lost.T)
        return CostOfWeights(with_rule, without_rule, significant(float(np.mean(shares > MOST_OF_WEIGHT)), 3))

    def _load_kernels(self) -> None:
        """Group some rows of the largest block and drop the result, so that no timing includes loading kernels."""
        place = int(np.argmax(self.sizes))
        start, n = int(self.blocks.starts[place]), int(self.sizes[place])
        setting, p = self.trial.setting, len(self.planned.encoding.kinds)
        while n > 4 * setting.k and setting.grouping_seconds(n, p) > _LOADING_SECONDS:
            n //= 2
        # Without protection: so few rows may not be able to meet its demands.
        some = slice(start, start + n)
        ticks, number = [values[some] for values in self.ticks], self.blocks.numbers[place : place + 1]
        block = Blocks(number, np.array([0, n]), ticks, self.missing[some])
        mask_blocks(self.spec, self.planned.encoding, self.steady, block, proving=False)

    def _mean(self, sums: NDArray[Any], rows: Ints | None = None) -> float:
        """Average what was summed over each block; or over some records that count alike, one row of each."""
        weights = self.weights if rows is None else np.repeat(self.weights, self.sizes)[rows]
        return float(np.sum(sums * weights))

    def _losses(self, statistics: LossStatistics, lines: pa.Table, lost: Floats, squares: Ints) -> dict[str, Any]:
        """Compute what is lost, of how much; as a release's figures where everything is tried."""
        by_seed = [self._masked(seed, proving=False).squares_lost(self.scale) for seed in self.trial.seeds[1:]]
        if self.draft.is_whole:
            losses, proved = losses_of(statistics), proved_figures(statistics, lines)
            bound = {"lower_bound": proved.lower_bound, "gap": proved.gap}
            of_seeds = [percent(float(np.sum(of_seed)), losses.sst) for of_seed in by_seed]
            loss = {"l_sse": significant(losses.l_sse), "l_sse_error": None}
        else:
            mean, whole = self._mean(lost), self._mean(squares)
            least = self._mean(np.asarray(lines["lower_bound"]))
            bound = {"lower_bound": None, "gap": significant(gap_percent(mean, least))}
            of_seeds = [percent(self._mean(of_seed), whole) for of_seed in by_seed]
            error = standard_error(self.weights, lost, squares)
            loss = {"l_sse": significant(percent(mean, whole)), "l_sse_error": error and significant(error, 2)}
        proof = bound if self.trial.proves else dict.fromkeys(bound)
        return {**loss, **proof, "l_sse_of_seeds": tuple(map(significant, of_seeds))}

    def _times(self, seconds: float) -> dict[str, Any]:
        """Compute what the drawn blocks took, and what a release would."""
        model_seconds = sum(self._model_seconds(n) for n in self.sizes.tolist())
        pace = seconds / model_seconds if model_seconds > 0 else 1.0
        is_all = self.draft.is_whole and self.trial.proves
        whole = seconds if is_all else self.trial.model_seconds * pace
        times = {"seconds": seconds, "whole_seconds": whole, "pace": pace}
        return {name: significant(value, _DIGITS_OF_TIME) for name, value in times.items()}

    def _risks(self, exposure: Exposure) -> dict[str, Any]:
        """Compute what is given away."""
        context = self.planned.context
        lines = label_lines(exposure)
        of_line = np.asarray(lines["row"])
        asked = self._mean(np.asarray(lines["asked"]), of_line)
        links = {
            name: share(self._mean(np.asarray(lines[name]), of_line), asked)
            for name in ("own_nearest", "expected_correct")
        }
        inference = Inference()
        by_chance = inference.figures(inference.measure(exposure), exposure.names)
        certain = {
            column.name: ColumnExpected(
                significant(self._mean(np.asarray(lines[f"certain_{j}"]), of_line)),
                by_chance[column.name]["by_chance"],
            )
            for j, column in enumerate(context.schema.confidential)
        }
        everybody = np.arange(len(self.missing))
        broken: tuple[str, ...] = ()
        if context.spec.protect is not None:
            inferred = {name: column.records_certain for name, column in certain.items()}
            right = self._mean(self._right_links(exposure), everybody)
            broken = _broken_limits(context, exposure, inferred, right)
        return {
            **links,
            "by_chance": _by_chance(exposure) if self.draft.is_whole else None,
            "unique_before": share(self._mean(_unique_before_masking(exposure).astype(np.float64), everybody), 1.0),
            "certain": certain,
            "broken": broken,
        }

    def _right_links(self, exposure: Exposure) -> Floats:
        """Compute how often each record is expected to be linked rightly, every record asked, as the gate does."""
        candidates = Candidates(
            exposure.means, exposure.missing, exposure.labels, exposure.sizes, exposure.costs, exposure.trees
        )
        encoding = self.planned.encoding.of_values
        values = encoding.standardize(encoding.offsets_of(self.ticks), self.missing)
        return candidates.link(values, exposure.groups)[1]

    def _shown(self, released: list[NDArray[Any]]) -> dict[str, Any]:
        """Make the columns, but for blocking ones, that a reader of these records would see."""
        columns: dict[str, Any] = {
            kind.name: kind.to_arrow(ticks, self.missing[:, j])
            for j, (kind, ticks) in enumerate(zip(self.planned.encoding.kinds, released, strict=True))
        }
        return columns | {c.name: self.table[f"c{j}"] for j, c in enumerate(self.planned.context.schema.confidential)}

    def _edits(self, shown: dict[str, Any]) -> Iterator[str]:
        """Say which rules between columns these records would break more often than they do as they came."""
        came = shown | {kind.name: self.table[f"q{j}"] for j, kind in enumerate(self.planned.encoding.kinds)}
        for edit in self.planned.context.spec.edits:
            count = EditCount(count_of(edit.comparison, came), count_of(edit.comparison, shown))
            if count.is_worse:
                which = "" if self.draft.is_whole else ", of those drawn"
                stops = "; with stop: true the gate would refuse the release" if edit.stop else ""
                yield f"{count.in_words(edit.rule)}{which}{self._mended(edit.comparison)}{stops}"

    def _known(self, shown: dict[str, Any]) -> Iterator[str]:
        """Say which known sets would have combinations of fewer than k, even if nobody knew their blocking columns."""
        schema, k = self.planned.context.schema, self.draft.k
        refuses = "the gate would refuse" if self.draft.is_whole else "the gate refuses unless other records join them"
        for names in self.planned.context.spec.known:
            if set(names) <= set(schema.grouping):
                continue
            counter = SpreadCounter([name for name in names if name in shown], k)
            counter.add(pa.table({name: shown[name] for name in names if name in shown}))
            if failing := counter.failing():
                found = f"{failing:,} combinations of these records have fewer than k={k} units, which {refuses}"
                yield f"known [{', '.join(names)}]: {found}; {known_cure(names, schema.grouping)}"

    def _mended(self, rule: Comparison) -> str:
        """Say of a rule between a mean and a value as it came how it would hold."""
        kinds = {kind.name for kind in self.planned.encoding.kinds}
        own = [name for name in rule.columns if name not in kinds]
        if len(rule.columns) != 2 or len(own) != 1 or rule.sign in ("==", "!="):
            return ""
        return f"; with {own[0]!r} among the quasi-identifiers both are means, of which it holds but for rounding"

    def _exposure(self, columns: dict[str, Any]) -> Exposure:
        """Expose what a reader of these records would see; of some blocks, each is a label of its own."""
        spec, encoding, table = self.planned.context.spec, self.planned.encoding.of_values, self.table
        names = [c.name for c in self.planned.context.schema.confidential]
        labels = np.array([self.draft.blocks[place].label for place in self.places.tolist()])
        # Longer than the name of any column, and so none of them.
        of_label = "label of " + " ".join(columns)
        shown = pa.table({**columns, of_label: pa.array(np.repeat(labels, self.sizes))})
        confidential = {name: Distribution.of(shown[name]) for name in names}
        origins = [table[f"q{j}"] for j in range(len(encoding.kinds))]
        # Of a whole release those are asked who are asked of it; of some blocks, all are.
        asking = asking_share(spec.risk, table.num_rows, len(encoding.kinds)) if self.draft.is_whole else 1.0
        records = np.asarray(table[RECORD])
        return expose(encoding, shown, (of_label,), confidential, records, origins, asking=asking, seed=spec.seed)


class _Weighed:
    """The quasi-identifiers of a block that have means, with the weights of its records."""

    def __init__(self, scale: Encoding, ticks: list[NDArray[Any]], missing: Bools) -> None:
        weights = scale.weights_of(ticks)
        self._scale, self.weights = scale, np.zeros(len(missing)) if weights is None else weights
        self._without = missing | [Claim.MEAN_KEPT not in kind.claims for kind in scale.kinds]
        self._z = scale.standardize(scale.offsets_of(ticks), self._without)

    @property
    def squares(self) -> Floats:
        """Weighted squared deviations from the mean of all records, record by record."""
        return np.asarray(self.weights * np.square(self._z).sum(axis=1))

    def lost(self, released: list[NDArray[Any]]) -> Floats:
        columns = zip(self._scale.kinds, released, self._scale.origins, strict=True)
        after = np.column_stack([kind.released_offsets(ticks, origin) for kind, ticks, origin in columns])
        gone = self._z - self._scale.standardize(after, self._without)
        return np.asarray(self.weights * np.square(gone).sum(axis=1))


def _by_chance(exposure: Exposure) -> float | None:
    """Compute what somebody links rightly who takes any record of the label that misses the same values."""
    own = exposure.own
    return share(float(exposure.all_candidates.by_chance(own).sum()), len(own)) if len(own) else None


def _unique_before_masking(exposure: Exposure) -> Bools:
    """Tell which records stand alone with their label and quasi-identifiers before masking."""
    keys = mix_words(exposure.labels[exposure.groups].astype(np.uint64))
    for hashes in exposure.originals or ():
        keys = mix_words(keys ^ hashes)
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alone: Bools = (counts == 1)[places]
    return alone


def _broken_limits(context: Context, exposure: Exposure, certain: Mapping[str, float], links: float) -> tuple[str, ...]:
    """Say what the gate would refuse of a release like this."""
    protection, weighed = protection_of(context), {CertainValues.name: certain, RightLinks.name: {EVERY_COLUMN: links}}
    checks = []
    for limit in limits():
        shown = {column: limit.show(exposure, column) for column in limit.limits(protection)}
        checks.append(limit.check(protection, weighed.get(limit.name, shown)))
    return tuple(check.detail for check in checks if check is not None and not check.passed)
