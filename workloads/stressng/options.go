package stressng

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"bisectd/blame"
)

// option is the value that a long option of stress-ng takes.
type option struct {
	min, max uint64 // of a number
	flag     bool   // takes no value: true or false in a job
}

// Limits as in the sources of stress-ng 0.15.06 to 0.22.00 (stress-timer.c,
// stress-timerfd.c, stress-itimer.c, stress-nanosleep.c); the --help text of
// 0.15.06 claims a wider range for frequencies than the program takes.
var (
	frequency = option{min: 1, max: 100_000_000} // Hz
	toggle    = option{flag: true}
	threads   = option{min: 1, max: 1024}
	instances = option{min: 1, max: 1024} // of the stressor itself, far below stress-ng's own limit
)

// arguments turns the job's args of a stressor into stress-ng's command line,
// in alphabetical order, and returns the number of instances.
func arguments(known map[string]option, args map[string]string) (argv []string, count string, err error) {
	count = "1"
	for _, name := range slices.Sorted(maps.Keys(args)) {
		opt, ok := known[name]
		if name == "instances" {
			opt, ok = instances, true
		}
		if !ok {
			names := append(slices.Sorted(maps.Keys(known)), "instances")
			return nil, "", blame.Errorf(blame.User, "unknown argument %q; known: %s", name, strings.Join(names, ", "))
		}
		value := args[name]
		if err := opt.check(name, value); err != nil {
			return nil, "", err
		}
		switch {
		case name == "instances":
			count = value
		case !opt.flag:
			argv = append(argv, "--"+name, value)
		case value == "true":
			argv = append(argv, "--"+name)
		}
	}
	return argv, count, nil
}

func (o option) check(name, value string) error {
	if o.flag {
		if value != "true" && value != "false" {
			return blame.Errorf(blame.User, "%s: %q is neither true nor false", name, value)
		}
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < o.min || n > o.max {
		return blame.Errorf(blame.User, "%s: %q is not a whole number from %d to %d", name, value, o.min, o.max)
	}
	return nil
}
