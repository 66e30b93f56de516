package bisect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// scalar reads a value with a unit and says where a wrong one stands.
func scalar(n ast.Node, parse func([]byte) error) error {
	if err := parse([]byte(n.GetToken().Value)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}

// Duration is a time.Duration written as in Go: 3s, 500ms.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalYAML reads it from a job file.
func (d *Duration) UnmarshalYAML(n ast.Node) error { return scalar(n, d.UnmarshalText) }

// MarshalText writes the duration as in a job file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no duration; write it like 3s or 500ms", b)
	}
	*d = Duration(v)
	return nil
}

// Percent is a fraction written as a percentage: 5%.
type Percent float64

func (p Percent) String() string { return strconv.FormatFloat(float64(p)*100, 'g', -1, 64) + "%" }

// UnmarshalYAML reads it from a job file.
func (p *Percent) UnmarshalYAML(n ast.Node) error { return scalar(n, p.UnmarshalText) }

// MarshalText writes the percentage as in a job file.
func (p Percent) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads it; the sign must be there, so that 0.05 is no riddle.
func (p *Percent) UnmarshalText(b []byte) error {
	digits, ok := strings.CutSuffix(string(b), "%")
	v, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil {
		return fmt.Errorf("%q is no percentage; write it like 5%%", b)
	}
	*p = Percent(v / 100)
	return nil
}

// Memory is a size in MiB, written with the suffix M or G.
type Memory int

func (m Memory) String() string {
	if m%1024 == 0 {
		return strconv.Itoa(int(m)/1024) + "G"
	}
	return strconv.Itoa(int(m)) + "M"
}

// UnmarshalYAML reads it from a job file.
func (m *Memory) UnmarshalYAML(n ast.Node) error { return scalar(n, m.UnmarshalText) }

// MarshalText writes the size as in a job file.
func (m Memory) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads it.
func (m *Memory) UnmarshalText(b []byte) error {
	s, unit := string(b), 1
	if digits, ok := strings.CutSuffix(s, "G"); ok {
		s, unit = digits, 1024
	} else {
		s = strings.TrimSuffix(s, "M")
	}
	v, err := strconv.Atoi(s)
	if err != nil || v <= 0 || s == string(b) {
		return fmt.Errorf("%q is no size; write it like 512M or 1G", b)
	}
	*m = Memory(v * unit)
	return nil
}

// UnmarshalYAML reads the word off, or a number.
func (o *Override) UnmarshalYAML(n ast.Node) error {
	err := scalar(n, o.parse)
	at := n.GetToken().Position
	o.At = fmt.Sprintf("%d:%d: ", at.Line, at.Column)
	return err
}

func (o *Override) parse(b []byte) error {
	if string(b) == "off" {
		*o = Override{Off: true}
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0) {
		return fmt.Errorf("%q is neither off nor a bound in the check's unit, such as 0.05", b)
	}
	*o = Override{Bound: &v}
	return nil
}

func (o Override) String() string {
	if o.Bound == nil {
		return "off"
	}
	return fmt.Sprintf("bound %g", *o.Bound)
}

// MarshalYAML writes it as in a job file.
func (o Override) MarshalYAML() (any, error) {
	if o.Off {
		return "off", nil
	}
	return o.Bound, nil
}
