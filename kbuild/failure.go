package kbuild

import (
	"path"
	"regexp"
	"strings"

	"bisectd/blame"
)

// diagnosis reads the output of make line by line and keeps what says why it
// failed.
type diagnosis struct {
	cause    string   // the first line that names a cause
	target   string   // the first of make's own lines: which target failed
	last     string   // the last line that is not blank
	host     string   // the first line that blames the host
	missing  string   // the first line that says a program is not installed
	required bool     // that stopped make: probes for programs print such lines too
	before   []string // the lines before the cause, for context
	after    []string // the lines after it
	function string   // the object that the linker is complaining about
}

// contextLines is how many lines around the first error are looked at to see
// which files it is about: gcc's chain of includes before it, its notes behind.
const contextLines = 24

// What the programs of a kernel build print: gcc and clang ("error:", "fatal
// error:"), as ("Error:"), ld, modpost ("ERROR:"), objtool, kconfig and make.
var (
	causes = regexp.MustCompile(`(?:^|[\s:])(?:fatal )?error: |: (?:Fatal error|Error): |^ERROR: ` +
		`|undefined reference to |multiple definition of ` +
		`|^(?:\S*/)?(?:\S+-)?ld(?:\.bfd|\.lld|\.gold)?: .*(?:cannot|failed|undefined|discarded)` +
		`|\*\*\* [^\[\s].*|^\S+:\d+: .*(?:syntax error|can't open file|unknown statement|invalid statement)` +
		`|[Ss]egmentation fault|^FAILED`)
	targets   = regexp.MustCompile(`\*\*\* \[.*\] `)
	excerpts  = regexp.MustCompile(`^\s*\d*\s*\| `) // gcc quoting the source
	functions = regexp.MustCompile(`^(?:\S*/)?(?:\S+-)?ld(?:\.bfd|\.gold)?: (\S+\.o): in function `)

	// strerror(3) of what a host runs out of, and the ends of killed
	// compilers: gcc's driver and make each have words of their own for it.
	hostFailures = regexp.MustCompile(`(?:No space left on device|Disk quota exceeded|Cannot allocate memory` +
		`|Resource temporarily unavailable|Too many open files(?: in system)?|Read-only file system` +
		`|Input/output error|Bus error|virtual memory exhausted.*)'?\.?$` +
		`|Killed signal terminated program|internal compiler error: (?:Killed|Terminated|Bus error)` +
		`|\*\*\* \[.*\] (?:Killed|Terminated|Hangup|Interrupt|Error 13[057]|Error 143)` +
		`|^(?:\S*/)?(?:\S+: )?out of memory allocating \d+ bytes|memory exhausted$|: Cannot fork$` +
		`|error while loading shared libraries: |cannot execute .*(?:cc1|as|collect2|ld)\b` +
		`|^ccache: error: |^Cannot create temporary file in `)
	missingTools = regexp.MustCompile(`^(?:/bin/)?(?:ba|da)?sh: (?:line )?(?:\d+: )?[^\s/]+: (?:command )?not found$` +
		`|^make(?:\[\d+\])?: [^\s/]+: No such file or directory$`)
	noProgram = regexp.MustCompile(`\*\*\* \[.*\] Error 127`) // sh(1): a command is not found

	sourceNames = regexp.MustCompile(`[\w./+-]*\w`)
)

func (d *diagnosis) add(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	d.last = line
	if d.cause != "" {
		if len(d.after) < contextLines {
			d.after = append(d.after, line)
		}
	} else {
		d.before = append(d.before, line)
		if len(d.before) > contextLines {
			d.before = d.before[1:]
		}
	}
	if excerpts.MatchString(line) {
		return
	}
	if m := functions.FindStringSubmatch(line); m != nil {
		d.function = m[1]
	}
	keep(&d.host, line, hostFailures.MatchString(line))
	keep(&d.missing, line, missingTools.MatchString(line))
	d.required = d.required || noProgram.MatchString(line)
	keep(&d.target, line, targets.MatchString(line))
	keep(&d.cause, d.withObject(line), causes.MatchString(line) && !strings.Contains(line, "warning: "))
}

// keep stores line unless there is an earlier one.
func keep(first *string, line string, matches bool) {
	if *first == "" && matches {
		*first = line
	}
}

// withObject puts the object's path, which ld prints on a line before, in the
// place of the source's base name in "timer.c:(.text+0x1): undefined reference".
func (d *diagnosis) withObject(line string) string {
	i := strings.Index(line, "undefined reference to ")
	if i < 0 || d.function == "" {
		return line
	}
	return d.function + ": " + line[i:]
}

// line returns the line that says best why make failed.
func (d *diagnosis) line() string {
	lines := []string{d.host, d.cause, d.target, d.last, "make failed without a word"}
	if d.blame() == blame.User {
		lines[0] = d.missing
	}
	for _, line := range lines {
		if line != "" {
			return short(line)
		}
	}
	return ""
}

// maxLine bounds the length of an error line, in bytes: template and macro
// errors run to kilobytes.
const maxLine = 400

func short(line string) string {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "..."
}

// blame says whose fault the failure is.
func (d *diagnosis) blame() blame.Blame {
	switch {
	case d.host != "":
		return blame.Infrastructure
	case d.missing != "" && d.required:
		return blame.User
	case d.cause == "" && d.target == "": // make itself did not work
		return blame.Infrastructure
	}
	return blame.Kernel
}

// names reports whether the error, or what the compiler printed around it,
// names one of the files: the file itself, the object made from it, or an
// object whose Makefile is among the files.
func (d *diagnosis) names(files []string) bool {
	set := make(map[string]bool, len(files))
	for _, f := range files {
		set[f] = true
	}
	lines := append(append([]string{d.cause, d.target}, d.before...), d.after...)
	for _, line := range lines {
		for _, name := range sourceNames.FindAllString(line, -1) {
			name = path.Clean(name)
			stem, isObject := strings.CutSuffix(name, ".o")
			if set[name] || isObject && (set[stem+".c"] || set[stem+".S"] || set[path.Dir(name)+"/Makefile"]) {
				return true
			}
		}
	}
	return false
}
