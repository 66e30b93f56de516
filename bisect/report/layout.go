package report

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"bisectd/workloads"
)

// width is the longest line of prose: what remains of 80 columns after two
// levels of quoting in a mail.
const width = 75

// page collects lines.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) {
	text := strings.TrimRight(printable(fmt.Sprintf(format, args...)), " ")
	p.WriteString(text + "\n")
}

// section starts a part with a title, one empty line after the last.
func (p *page) section(title string) {
	p.WriteString("\n")
	p.line("%s", title)
}

// prose writes text wrapped at width: the first line after first, the others
// indented as far. What does not fit into most lines ends in "...": the JSON
// report has it whole. Zero is no limit.
func (p *page) prose(first, text string, most int) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(first))
	lines := wrap(printable(text), width-len(indent))
	if most > 0 && len(lines) > most {
		lines = lines[:most]
		last := []rune(lines[most-1])
		lines[most-1] = strings.TrimRight(string(last[:min(len(last), width-len(indent)-4)]), " ,;") + " ..."
	}
	for i, l := range lines {
		if i > 0 {
			first = indent
		}
		p.line("%s%s", first, l)
	}
}

// items writes a list in at most room lines, each item in at most deep.
func (p *page) items(list []string, room, deep int) {
	end := p.lines() + room
	for i, text := range list {
		more := min(1, len(list)-i-1) // a line to say that there are others
		var item page
		item.prose("  - ", text, deep)
		if p.lines()+item.lines()+more > end {
			p.line("  and %d more, in the JSON report", len(list)-i)
			return
		}
		p.WriteString(item.String())
	}
}

func (p *page) lines() int { return strings.Count(p.String(), "\n") }

// table writes rows in columns: the first one to the left, the others to the
// right.
func (p *page) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("  " + cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		p.line("%s", b.String())
	}
}

// wrap breaks text at blanks; a word longer than columns gets its own line.
func wrap(text string, columns int) []string {
	var lines []string
	var line string
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// printable replaces what a terminal would act upon: console output of a
// kernel under test may hold anything.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
}

// large is the growth from which a factor reads better than a percentage.
const large = 9

// percent writes new/old - 1 with its sign, a large one as new/old.
func percent(effect float64) string {
	switch {
	case math.IsNaN(effect) || math.IsInf(effect, 0):
		return "n/a"
	case effect >= large:
		return "x " + workloads.Number(effect+1)
	}
	return fmt.Sprintf("%+.1f %%", 100*effect)
}

// interval writes the bounds of an effect with their unit once.
func interval(low, high float64) string {
	from, to := percent(low), percent(high)
	if strings.HasSuffix(to, " %") {
		from = strings.TrimSuffix(from, " %")
	}
	return from + " to " + to
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
