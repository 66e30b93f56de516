package bisect

import "time"

// Phase is what the engine is doing.
type Phase string

// The phases of a run and the two long activities within them.
const (
	Calibrating Phase = "calibrate"
	Walking     Phase = "walk"
	Confirming  Phase = "confirm"
	Building    Phase = "build"
	Booting     Phase = "boot"
)

// Update tells a person where a run stands. Fields that do not apply are zero.
type Update struct {
	Phase   Phase
	Commit  Commit
	VCPUs   int
	Profile Profile
	Left    int    // candidates for the first new commit
	Steps   int    // tests still expected
	Done    bool   // the build or boot has ended
	Text    string // what came of it
	Objects int    // compiled so far
	Took    time.Duration
}

// Progress receives updates; nil ignores them.
type Progress func(Update)

func (p Progress) tell(u Update) {
	if p != nil {
		p(u)
	}
}
