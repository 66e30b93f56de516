// Package kconfig reads, merges and checks kernel configurations: the .config
// that the kernel's own tools write, and fragments of it that ask for some
// symbols only.
//
// A fragment is a piece of .config. Every symbol in it is required, unless the
// line just before it is exactly "# optional". "# CONFIG_X is not set" and
// "CONFIG_X=n" both require that X is off, which a .config may also say by
// not mentioning X at all.
package kconfig

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a symbol's value, as far as its text tells.
type Kind uint8

// The kinds of a value: Documentation/kbuild/kconfig-language.rst, "type
// definition". A bool is a tristate that is never m.
const (
	Tristate Kind = iota // y, m or n
	String               // in double quotes
	Int                  // decimal
	Hex                  // 0x...
)

// Value is the value of a symbol. The zero Value is n.
type Value struct {
	Kind Kind
	Text string // as in .config; "" for n
}

// No is the value of a symbol that is off, not set or not mentioned.
var No = Value{}

// String returns the value as .config spells it, n for one that is off.
func (v Value) String() string {
	if v == No {
		return "n"
	}
	return v.Text
}

// Equal reports whether two values mean the same: numbers are compared as
// numbers, everything else by its text.
func (v Value) Equal(w Value) bool {
	if v.Kind != w.Kind {
		return false
	}
	switch v.Kind {
	case Int:
		a, errA := strconv.ParseInt(v.Text, 10, 64)
		b, errB := strconv.ParseInt(w.Text, 10, 64)
		return errA == nil && errB == nil && a == b || v.Text == w.Text
	case Hex:
		a, errA := strconv.ParseUint(v.Text[2:], 16, 64)
		b, errB := strconv.ParseUint(w.Text[2:], 16, 64)
		return errA == nil && errB == nil && a == b || v.Text == w.Text
	}
	return v.Text == w.Text
}

// Setting is one symbol of a configuration.
type Setting struct {
	Name     string // with CONFIG_
	Value    Value
	Optional bool   // a kernel without it will do
	File     string // where it was asked for
	Line     int
}

// Config is a set of settings, at most one a symbol.
type Config struct {
	settings map[string]Setting
}

// Get returns the value of name, No where nothing is said about it.
func (c *Config) Get(name string) Value { return c.settings[name].Value }

// Settings returns all settings in the order of their names.
func (c *Config) Settings() []Setting {
	all := make([]Setting, 0, len(c.settings))
	for _, s := range c.settings {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Text renders the configuration as a fragment. Configurations that ask for
// the same have the same text, whatever order they were written in.
func (c *Config) Text() []byte {
	var out bytes.Buffer
	for _, s := range c.Settings() {
		if s.Optional {
			out.WriteString(optionalMark + "\n")
		}
		if s.Value == No {
			fmt.Fprintf(&out, "# %s is not set\n", s.Name)
			continue
		}
		fmt.Fprintf(&out, "%s=%s\n", s.Name, s.Value.Text)
	}
	return out.Bytes()
}

const optionalMark = "# optional"

var (
	assignment = regexp.MustCompile(`^(CONFIG_[A-Za-z0-9_]+)=(.*)$`)
	notSet     = regexp.MustCompile(`^# (CONFIG_[A-Za-z0-9_]+) is not set$`)
	decimal    = regexp.MustCompile(`^-?[0-9]+$`)
	hex        = regexp.MustCompile(`^0[xX][0-9a-fA-F]+$`)
)

// Parse reads a .config or a fragment. Where a symbol is set twice, the later
// setting wins, as in the kernel's own tools. Errors name file and line; file
// is only a name.
func Parse(file string, r io.Reader) (*Config, error) {
	c := &Config{settings: map[string]Setting{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	optional := false
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), " \t\r")
		s, ok, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if ok {
			s.Optional, s.File, s.Line = optional, file, n
			c.settings[s.Name] = s
		}
		optional = line == optionalMark
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
	}
	return c, nil
}

// parseLine returns the setting in line; ok is false for comments and blank
// lines.
func parseLine(line string) (s Setting, ok bool, err error) {
	if m := notSet.FindStringSubmatch(line); m != nil {
		return Setting{Name: m[1]}, true, nil
	}
	if line == "" || strings.HasPrefix(line, "#") {
		return Setting{}, false, nil
	}
	m := assignment.FindStringSubmatch(line)
	if m == nil {
		return Setting{}, false, fmt.Errorf("neither CONFIG_NAME=value nor a comment: %q", line)
	}
	v, err := parseValue(m[2])
	if err != nil {
		return Setting{}, false, fmt.Errorf("%s: %w", m[1], err)
	}
	return Setting{Name: m[1], Value: v}, true, nil
}

func parseValue(text string) (Value, error) {
	switch {
	case text == "n":
		return No, nil
	case text == "y" || text == "m":
		return Value{Tristate, text}, nil
	case quoted(text):
		return Value{String, text}, nil
	case hex.MatchString(text):
		return Value{Hex, text}, nil
	case decimal.MatchString(text):
		return Value{Int, text}, nil
	}
	return No, fmt.Errorf("%q is not y, m, n, a number or a string in double quotes", text)
}

// quoted reports whether text is one string in double quotes, in which
// backslash escapes a quote or another backslash.
func quoted(text string) bool {
	if len(text) < 2 || text[0] != '"' {
		return false
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i == len(text)-1
		}
	}
	return false
}
