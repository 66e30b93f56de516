package bisect

import "time"

// Commit is a commit of the tree being bisected.
type Commit struct {
	ID      string    `json:"id"`   // full object id
	Tree    string    `json:"tree"` // full object id of its tree
	Parents []string  `json:"parents,omitempty"`
	Subject string    `json:"subject"`
	Author  string    `json:"author"` // Name <address>
	Date    time.Time `json:"date"`   // author date
}

// Short returns the first 12 digits of the id, the length that kernel mails
// use (Documentation/process/submitting-patches.rst).
func (c Commit) Short() string {
	if len(c.ID) < 12 {
		return c.ID
	}
	return c.ID[:12]
}

// String returns the commit as kernel mails cite it: 12 digits ("subject").
func (c Commit) String() string { return c.Short() + ` ("` + c.Subject + `")` }

// Verdict says on which side of the change a commit stands. The walk knows no
// good and bad: which side is worse, if any, is decided at the end.
type Verdict uint8

// The verdicts. Unknown means not tested yet, or not decided by the boots
// made so far.
const (
	Unknown Verdict = iota
	Old
	New
	Skip // does not build or does not boot
)

var verdictNames = [...]string{"unknown", "old", "new", "skip"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText writes the verdict's word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the verdict's word; an unlisted one is Unknown.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Unknown
	for i, n := range verdictNames {
		if n == string(b) {
			*v = Verdict(i)
		}
	}
	return nil
}

// Range is the set of commits in which the first new one is sought: all that
// the bad revision reaches and the good ones do not.
type Range interface {
	Good() []Commit
	Bad() Commit
	Len() int // candidates, Bad included
	// Commit returns a commit of the range or one of the good ones.
	Commit(id string) (Commit, bool)
	// Next chooses what to test, given the verdicts so far. Good revisions
	// are Old and Bad is New without being listed.
	Next(verdicts map[string]Verdict) Step
}

// Step is the state of a walk.
type Step struct {
	Test Commit // the commit to test next, unless Done
	Done bool
	// Suspects holds, when Done, the first new commit alone, or every commit
	// that may be it where skipped ones keep them apart; parents first.
	Suspects []Commit
	Left     int // candidates for the first new commit
	Steps    int // tests still expected: about log2 of Left
}
