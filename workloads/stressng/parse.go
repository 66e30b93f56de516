package stressng

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// report is what stress-ng says about one stressor.
type report struct {
	version   string // e.g. "stress-ng 0.15.06"
	ops, wall float64
	values    map[string]float64 // the stressor's keys in the YAML's metrics
	overruns  float64            // sum over the instances
	counted   bool               // the log has overruns
	complaint string             // why stress-ng itself calls the run unsound
}

// Lines of the log, as of all versions from 0.15.06 to 0.22.
var (
	logLine   = regexp.MustCompile(`^stress-ng: ([a-z]+): +\[\d+\] (.*)$`)
	overrun   = regexp.MustCompile(`^timer: (\d+) timer overruns \(instance \d+\)$`)
	hogs      = regexp.MustCompile(`^dispatching hogs: (\d+) `)
	summary   = regexp.MustCompile(`^(skipped|failed|metrics untrustworthy|passed): (\d+)\b`)
	completed = regexp.MustCompile(`^successful run completed in `)
)

// parse reads the YAML and the log of a run of one stressor, mixed by lines in
// any order. A complaint is set even where the error is not nil.
//
// The YAML is read by its indentation: stress-ng writes it with fixed formats,
// and no version's is YAML throughout. Up to 0.15 it has unquoted strings with
// colons, in 0.19 a key that belongs deeper stands at the margin, and since
// 0.21.04 a list of instances repeats the stressor's keys twelve spaces deep.
func parse(stressor string, text []byte) (report, error) {
	r := report{values: map[string]float64{}}
	l := logReader{}
	inside, found := false, 0
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " \x00")
		if m := logLine.FindStringSubmatch(line); m != nil {
			l.read(m[1], m[2], &r)
			continue
		}
		switch {
		case strings.HasPrefix(line, "    - stressor: "):
			inside = strings.TrimPrefix(line, "    - stressor: ") == stressor
			if inside {
				found++
			}
		case !strings.HasPrefix(line, "      "):
			inside = false
		case strings.HasPrefix(line, "      stress-ng-version: "):
			r.version = "stress-ng " + strings.Trim(strings.TrimPrefix(line, "      stress-ng-version: "), "'")
		case inside && line[6] != ' ':
			if err := r.add(line[6:]); err != nil {
				return r, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return r, err
	}
	r.complaint = l.complaint()
	if found != 1 {
		return r, fmt.Errorf("%d reports of stressor %s in the output, want 1", found, stressor)
	}
	r.ops, r.wall = r.values["bogo-ops"], r.values["wall-clock-time"]
	return r, nil
}

// add reads one "key: number" of the stressor.
func (r *report) add(line string) error {
	key, text, ok := strings.Cut(line, ": ")
	if !ok {
		return nil // a key that opens a list
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) || v < 0 {
		return fmt.Errorf("%s: %q is not a number that can be", key, text)
	}
	// Keys made from descriptions are cut at 39 characters and may repeat.
	if _, twice := r.values[key]; twice && key == "bogo-ops" {
		return fmt.Errorf("%s appears twice", key)
	}
	r.values[key] = v
	return nil
}

// logReader collects from the log what stress-ng thinks of its own run.
type logReader struct {
	failures   []string // lines of level fail, and counts that should be zero
	dispatched int
	passed     int
	told       bool // of those that passed; 0.15 does not
	completed  bool
}

func (l *logReader) read(level, text string, r *report) {
	if level == "fail" || level == "error" {
		l.failures = append(l.failures, text)
	}
	if strings.Contains(text, "metrics are untrustworthy") {
		l.failures = append(l.failures, text)
	}
	if m := overrun.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseFloat(m[1], 64)
		r.overruns += n
		r.counted = true
	}
	if m := hogs.FindStringSubmatch(text); m != nil {
		l.dispatched, _ = strconv.Atoi(m[1])
	}
	if m := summary.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[2])
		switch {
		case m[1] == "passed":
			l.passed, l.told = n, true
		case n > 0:
			l.failures = append(l.failures, text)
		}
	}
	l.completed = l.completed || completed.MatchString(text)
}

// complaint is empty for a sound run.
func (l *logReader) complaint() string {
	switch {
	case len(l.failures) > 0:
		return strings.Join(l.failures[:min(len(l.failures), 3)], "; ")
	case !l.completed:
		return "stress-ng did not report a successful end"
	case l.told && l.passed != l.dispatched:
		return fmt.Sprintf("%d of %d instances passed", l.passed, l.dispatched)
	}
	return ""
}
