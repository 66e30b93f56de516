package qemu

import (
	"bytes"
	"regexp"
	"strings"
)

// panicText starts the line with which the kernel announces a panic
// (kernel/panic.c).
const panicText = "Kernel panic - not syncing: "

var (
	// escapes are terminal control sequences (ECMA-48) and control
	// characters.
	escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[^\[]|[\x00-\x08\x0b-\x1a\x7f]`)
	// prefix is what printk puts before a message: level, time, and the
	// caller where CONFIG_PRINTK_CALLER is set.
	prefix = regexp.MustCompile(`^(<\d+>)?(\[ *\d+\.\d{6}\] ?)?(\[ *[TC]\d+\] ?)?`)
	// headline matches the line that says what went wrong, a few lines before
	// the one that counts the oops (arch/x86/mm/fault.c, lib/bug.c).
	headline = regexp.MustCompile(`^(BUG: |kernel BUG at )`)
	// oops matches the line that counts it: "Oops: 0000 [#1] SMP",
	// "general protection fault, ...: 0000 [#1]" (arch/x86/kernel/dumpstack.c,
	// __die_header).
	oops = regexp.MustCompile(`: [0-9a-f]{4} \[#\d+\]`)
	// location matches the line of a register dump that names the function.
	location = regexp.MustCompile(`^RIP: [0-9a-f]{4}:(\S+)`)
)

// headlineReach is how many lines a headline may come before its oops.
const headlineReach = 8

// console reads what the guest prints and keeps what says how it ended.
type console struct {
	partial  []byte
	lines    int    // seen, without empty ones
	last     string // of them
	headline string // last headline
	at       int    // its line
	oops     string // last oops
	rip      string // where that was
	warning  string // first warning
	panic    string // first panic, without panicText
}

// maxLine bounds a line without an end.
const maxLine = 4096

// Write takes the next bytes of the console. It never fails.
func (c *console) Write(text []byte) (int, error) {
	n := len(text)
	for {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			break
		}
		c.line(string(append(c.partial, text[:i]...)))
		c.partial, text = c.partial[:0], text[i+1:]
	}
	c.partial = append(c.partial, text[:min(len(text), maxLine-min(maxLine, len(c.partial)))]...)
	return n, nil
}

// close takes the last line, which may have no end.
func (c *console) close() {
	c.line(string(c.partial))
	c.partial = nil
}

func (c *console) line(raw string) {
	text := clean(raw)
	if text == "" {
		return
	}
	c.lines++
	c.last = text
	switch message, panics := strings.CutPrefix(text, panicText); {
	case panics:
		first(&c.panic, message)
	case headline.MatchString(text):
		c.headline, c.at = text, c.lines
	case oops.MatchString(text):
		c.oops, c.rip = text, ""
		if c.headline != "" && c.lines-c.at <= headlineReach {
			c.oops = c.headline
		}
	case strings.HasPrefix(text, "WARNING: "):
		first(&c.warning, text)
	case c.oops != "":
		if m := location.FindStringSubmatch(text); m != nil {
			first(&c.rip, m[1])
		}
	}
}

// first sets *s once.
func first(s *string, text string) {
	if *s == "" {
		*s = text
	}
}

// cause returns in one line why the kernel panicked, and "" when it did not
// say that it did. The oops or the warning that led to a panic says more than
// the panic.
func (c *console) cause() string {
	switch {
	case c.panic == "":
		return ""
	case strings.HasPrefix(c.panic, "Fatal exception") && c.rip != "":
		return c.oops + " at " + c.rip
	case strings.HasPrefix(c.panic, "Fatal exception") && c.oops != "":
		return c.oops
	case strings.Contains(c.panic, "panic_on_warn") && c.warning != "":
		return c.warning
	}
	return panicText + c.panic
}

// spoke tells whether the kernel said that something is wrong with it. A
// lock-up that it found is none of that: a host that stalls makes one, too.
func (c *console) spoke() bool {
	return c.panic != "" || c.oops != "" || c.headline != "" && !strings.Contains(c.headline, "lockup")
}

// clean returns a line of the console as the kernel meant it.
func clean(line string) string {
	line = escapes.ReplaceAllString(line, "")
	return strings.TrimSpace(prefix.ReplaceAllString(line, ""))
}
