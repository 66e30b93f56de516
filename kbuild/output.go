package kbuild

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

// compiled matches the lines with which kbuild, when quiet, says that it
// compiles an object of the kernel: "  CC      kernel/time/timer.o".
var compiled = regexp.MustCompile(`^  (?:CC|AS)(?: \[M\])? +\S`)

// output takes what make prints: it keeps it in the log, counts objects and
// looks for the cause of a failure. Paths come out relative to the tree.
type output struct {
	log      io.Writer
	strip    *strings.Replacer
	progress func(done int) // called for each object; or nil
	objects  int
	failure  diagnosis
	partial  []byte
	err      error // of the log
}

// newOutput returns an output for a make whose sources and objects are in the
// given directories.
func newOutput(log io.Writer, source, objects string, progress func(int)) *output {
	return &output{log: log, strip: strings.NewReplacer(source+"/", "", objects+"/", ""), progress: progress}
}

// Write never fails, so that make runs on when the log cannot be written.
func (o *output) Write(p []byte) (int, error) {
	if _, err := o.log.Write(p); err != nil && o.err == nil {
		o.err = err
	}
	o.partial = append(o.partial, p...)
	for {
		line, rest, found := bytes.Cut(o.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		o.line(string(line))
		o.partial = rest
	}
}

// close takes in a last line that has no end.
func (o *output) close() {
	if len(o.partial) > 0 {
		o.line(string(o.partial))
	}
	o.partial = nil
}

func (o *output) line(line string) {
	if compiled.MatchString(line) {
		o.objects++
		if o.progress != nil {
			o.progress(o.objects)
		}
		return
	}
	o.failure.add(o.strip.Replace(line))
}
