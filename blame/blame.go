// Package blame says who is at fault when something fails. What bisectd does
// next depends on nothing else: a kernel's fault is a verdict on a commit, the
// workload's, the environment's and the infrastructure's are tried again and
// then stop the run, the user's ends the command with exit status 2.
package blame

import (
	"errors"
	"fmt"
)

// Blame names the party at fault.
type Blame uint8

// The zero value is Infrastructure, so that an error nobody classified can
// never turn into a verdict on a kernel.
const (
	Infrastructure Blame = iota // the host, QEMU, git, the file system, bisectd itself
	Kernel                      // the commit under test: does not build, boot or survive
	Workload                    // the program run in the guest
	Environment                 // the guest measured under conditions that void the measurement
	User                        // the job file, a flag, a revision that does not exist
)

var names = [...]string{"infrastructure", "kernel", "workload", "environment", "user"}

// String returns the lower-case word used in reports and in the journal.
func (b Blame) String() string {
	if int(b) < len(names) {
		return names[b]
	}
	return fmt.Sprintf("blame(%d)", uint8(b))
}

// Error is an error with a party at fault.
type Error struct {
	Blame Blame
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Errorf formats like fmt.Errorf, %w included, and puts the blame on b.
func Errorf(b Blame, format string, args ...any) error {
	return &Error{Blame: b, Err: fmt.Errorf(format, args...)}
}

// Of returns the blame of the outermost Error in err's chain, and
// Infrastructure where there is none.
func Of(err error) Blame {
	var e *Error
	if errors.As(err, &e) {
		return e.Blame
	}
	return Infrastructure
}
