package judge

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"bisectd/bisect"
)

func failures(obs bisect.Observations) bisect.Observations {
	return slices.DeleteFunc(slices.Clone(obs), func(o bisect.Observation) bool { return o.Ending == bisect.Completed })
}

func ending(o bisect.Observation) string { return fmt.Sprintf("%s: %s", o.Ending, o.Detail) }

// crash finds a bad end that fails where the good one completes: in the same
// way each time it does, and at least twice, as one failure could be the
// host's doing.
func crash(old, new bisect.Observations) (bisect.Signal, bool) {
	failed := failures(new)
	if len(failures(old)) > 0 || len(failed) < leastCrashes {
		return bisect.Signal{}, false
	}
	first := failed[0]
	for _, o := range failed {
		if o.Profile != first.Profile || !sameCrash(o, first) {
			return bisect.Signal{}, false
		}
	}
	rate := ""
	if n := count(new, first.Profile); n > len(failed) {
		rate = fmt.Sprintf(" in %d of %d boots", len(failed), n)
	}
	return bisect.Signal{Kind: bisect.CrashSignal, Name: string(first.Ending), Profile: first.Profile,
		Old: string(bisect.Completed), New: ending(first) + rate, Related: true}, true
}

const (
	// leastCrashes is how many failures of the bad end make a signal.
	leastCrashes = 2
	// goodCrashes is how many tell the rate of one that comes now and then;
	// with fewer, a commit has to complete very often before it is Old.
	goodCrashes = 5
	// enoughBoots is how many boots tell it in any case.
	enoughBoots = 40
)

// crashKnown tells whether the rate of the bad end's failures is known well
// enough to conclude anything from boots that complete.
func crashKnown(new bisect.Observations) bool {
	n, k := rate(new)
	return k == n && k >= leastCrashes+1 || k >= goodCrashes || n >= enoughBoots
}

// rate counts the boots of the failing profile and their failures.
func rate(new bisect.Observations) (boots, crashes int) {
	failed := failures(new)
	if len(failed) == 0 {
		return len(new), 0
	}
	return count(new, failed[0].Profile), len(failed)
}

// placeCrash places a commit by the failure of the bad end. One failure of the
// same kind makes it New: the good end has none. It is Old after so many boots
// without one that as many by luck are less likely than a test's share of the
// accepted error, given the rate at the bad end (Jeffreys' prior: a Beta
// distribution, whose mixture of (1-p)^n is in closed form). Boots that fail
// otherwise say nothing: the failure that is sought could not show.
func (j *Judge) placeCrash(new, commit bisect.Observations) bisect.Placement {
	sought := failures(new)
	if len(sought) == 0 {
		return bisect.Placement{Verdict: bisect.Skip, Detail: "the bad end does not fail any more"}
	}
	clean, masked := 0, ""
	for _, o := range commit {
		switch {
		case o.Ending == bisect.Completed:
			clean++
		case sameCrash(o, sought[0]):
			return bisect.Placement{Verdict: bisect.New, Detail: fmt.Sprintf("%s, after %d boots without", ending(o), clean)}
		default:
			masked = ending(o)
		}
	}
	// An Old that is wrong leads to a parent which then crashes in the boots
	// of the confirmation: the walk may be less strict than that.
	alpha := walkLeniency * j.Error / float64(max(j.Steps, 1))
	luck := cleanByLuck(new, clean)
	switch {
	case luck <= alpha:
		return bisect.Placement{Verdict: bisect.Old, Detail: fmt.Sprintf("%s in %d boots", bisect.Completed, clean)}
	case masked != "" && len(commit)-clean >= maskedBoots:
		return bisect.Placement{Verdict: bisect.Skip, Detail: "fails otherwise than the bad end: " + masked}
	}
	return bisect.Placement{Detail: fmt.Sprintf("%s in %d boots; by luck with a chance of %.2g",
		bisect.Completed, clean, luck)}
}

// walkLeniency is by how much a verdict of the walk may be less certain than
// its share of the accepted error.
const walkLeniency = 6

// maskedBoots is how many failures of another kind make a commit untestable.
const maskedBoots = 2

// cleanByLuck is the chance that a commit with the bad end's failure completes
// n boots in a row.
func cleanByLuck(new bisect.Observations, n int) float64 {
	boots, crashes := rate(new)
	a, b := float64(crashes)+0.5, float64(boots-crashes)+0.5
	return math.Exp(logBeta(a, b+float64(n)) - logBeta(a, b))
}

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}

// variable matches what differs between two reports of one crash: addresses,
// offsets, process ids, time stamps.
var variable = regexp.MustCompile(`0x[0-9a-f]+|[0-9a-f]{8,}|\d+`)

// spoken matches what the kernel says of a failure, as opposed to what is
// concluded from its silence.
var spoken = regexp.MustCompile(`panic|BUG|WARNING|Oops|fault|lockup|stall`)

// sameCrash tells whether two failures are one. Where the kernel said what
// happened both must say the same; hangs and silent deaths are all alike.
func sameCrash(a, b bisect.Observation) bool {
	if a.Ending != b.Ending {
		return false
	}
	if spoken.MatchString(a.Detail) || spoken.MatchString(b.Detail) {
		return variable.ReplaceAllString(a.Detail, "N") == variable.ReplaceAllString(b.Detail, "N")
	}
	return true
}
