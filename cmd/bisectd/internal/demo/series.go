package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"bisectd/bisect"
	"bisectd/blame"
)

// series describes the history of the demonstration and the jobs over it, as
// configs/demo/series.yaml does and explains.
type series struct {
	Source   source   `yaml:"source"`
	Identity identity `yaml:"identity"`
	Root     root     `yaml:"root"`
	Steps    []step   `yaml:"steps"`
	Good     string   `yaml:"good"` // a tag
	Bad      string   `yaml:"bad"`  // a tag
	Jobs     []task   `yaml:"jobs"`
}

// source is the package that brings the tree of the first commit.
type source struct {
	Package   string `yaml:"package"`
	Archive   string `yaml:"archive"`   // where the package puts it
	Directory string `yaml:"directory"` // the archive's top directory
}

type identity struct {
	Name  string `yaml:"name"`
	Email string `yaml:"email"`
}

type root struct {
	Subject string    `yaml:"subject"`
	Date    time.Time `yaml:"date"`
	Tag     string    `yaml:"tag"`
}

// step does one thing at the tip of the current line of history: exactly one
// of Patch, Tag, Branch, Switch and Merge is set.
type step struct {
	Patch   string    `yaml:"patch"` // file to apply as one commit
	Fate    string    `yaml:"fate"`  // what a tester meets at it
	Tag     string    `yaml:"tag"`
	Branch  string    `yaml:"branch"` // line that starts here
	Switch  string    `yaml:"switch"` // line to go on with
	Merge   string    `yaml:"merge"`  // line to merge
	Date    time.Time `yaml:"date"`   // of the merge
	Message string    `yaml:"message"`
}

// task is a job over the range. Workload has the form it has in a job file.
type task struct {
	Name     string         `yaml:"name"`
	Planted  string         `yaml:"planted"` // the patch to be found
	Class    bisect.Class   `yaml:"class"`   // and what it is to be called
	Workload map[string]any `yaml:"workload"`
	Metric   string         `yaml:"metric"`
	Shows    string         `yaml:"shows"` // one sentence for people
}

// mainLine is the line of history that a series starts on.
const mainLine = "main"

// readSeries reads series.yaml. The series is part of the program, so that a
// mistake in it is not the user's.
func readSeries(files fs.FS) (series, error) {
	data, err := fs.ReadFile(files, "series.yaml")
	if err != nil {
		return series{}, blame.Errorf(blame.Infrastructure, "demonstration: %w", err)
	}
	s, err := parseSeries(data)
	if err != nil {
		return series{}, blame.Errorf(blame.Infrastructure, "demonstration: series.yaml: %w", err)
	}
	return s, nil
}

func parseSeries(data []byte) (series, error) {
	var s series
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&s); err != nil {
		return series{}, err
	}
	if err := s.check(); err != nil {
		return series{}, err
	}
	return s, nil
}

// check walks the steps as the build will, so that a series that passes can
// fail only over what is in its patches.
func (s *series) check() error {
	if s.Source.Directory == "" || s.Identity.Name == "" || s.Identity.Email == "" ||
		s.Root.Subject == "" || s.Root.Date.IsZero() {
		return errors.New("source.directory, identity and root must be given")
	}
	lines, tags := map[string]bool{mainLine: true}, map[string]bool{s.Root.Tag: s.Root.Tag != ""}
	patches, at := map[string]bool{}, mainLine
	for i, st := range s.Steps {
		var err error
		switch kind, name := st.kind(); kind {
		case "patch":
			err = claim(patches, name)
		case "tag":
			err = claim(tags, name)
		case "branch":
			err = claim(lines, name)
		case "switch":
			if at = name; !lines[name] {
				err = fmt.Errorf("no line %q", name)
			}
		case "merge":
			err = st.checkMerge(lines, at)
		default:
			err = errors.New("exactly one of patch, tag, branch, switch and merge must be given")
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if !tags[s.Good] || !tags[s.Bad] || s.Good == s.Bad {
		return fmt.Errorf("good %q and bad %q must be two tags", s.Good, s.Bad)
	}
	for _, j := range s.Jobs {
		if !patches[j.Planted] {
			return fmt.Errorf("job %q: no step applies %q", j.Name, j.Planted)
		}
	}
	return nil
}

// kind returns the one thing that the step does and to what; an empty kind
// where there is none or more than one.
func (s step) kind() (kind, name string) {
	for _, k := range []struct{ kind, name string }{
		{"patch", s.Patch}, {"tag", s.Tag}, {"branch", s.Branch}, {"switch", s.Switch}, {"merge", s.Merge},
	} {
		if k.name == "" {
			continue
		}
		if kind != "" {
			return "", ""
		}
		kind, name = k.kind, k.name
	}
	return kind, name
}

func (s step) checkMerge(lines map[string]bool, at string) error {
	switch {
	case !lines[s.Merge] || s.Merge == at:
		return fmt.Errorf("no other line %q", s.Merge)
	case s.Date.IsZero() || strings.TrimSpace(s.Message) == "":
		return errors.New("a merge needs a date and a message")
	}
	return nil
}

func claim(taken map[string]bool, name string) error {
	if taken[name] {
		return fmt.Errorf("%q is there already", name)
	}
	taken[name] = true
	return nil
}

// patches lists the files that the series applies, in order.
func (s *series) patches() []string {
	var names []string
	for _, st := range s.Steps {
		if st.Patch != "" {
			names = append(names, st.Patch)
		}
	}
	return names
}
