package main

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"bisectd/bisect"
	"bisectd/blame"
)

// Boots that the engine makes at least: to calibrate the ends, and to confirm
// the final pair at each vCPU count.
const (
	bootsOfEnds = 8
	bootsOfPair = 8
)

// meter shows live where a run stands: lines for what has ended, and, on a
// terminal, one line below them for what goes on and how long it may take.
type meter struct {
	out   *os.File
	log   *zap.Logger   // of the run; nothing before it is known
	bars  *mpb.Progress // nil where out is no terminal
	bar   *mpb.Bar
	start time.Time

	mu      sync.Mutex
	name    string
	counts  int // vCPU counts of the job
	commits int // in the range, once that is known; two kernels alone have none
	now     bisect.Update
	walk    bisect.Update // the last step of the walk
	phase   bisect.Phase
	inPhase int // boots made in it
	since   time.Time
	objects [2]int // compiled, expected
	builds  pace
	boots   pace
}

// pace averages how long something takes.
type pace struct {
	n     int
	total time.Duration
}

func (p *pace) add(d time.Duration) { p.n, p.total = p.n+1, p.total+d }

func (p *pace) mean() time.Duration {
	if p.n == 0 {
		return 0
	}
	return p.total / time.Duration(p.n)
}

func newMeter(out *os.File, job bisect.Job) *meter {
	m := &meter{out: out, log: zap.NewNop(), start: time.Now(), since: time.Now(),
		name: job.Name, counts: len(job.Machine.VCPUs)}
	if !term.IsTerminal(int(out.Fd())) {
		return m
	}
	m.bars = mpb.New(mpb.WithOutput(out), mpb.WithRefreshRate(250*time.Millisecond))
	status := decor.Any(func(decor.Statistics) string { return m.status() })
	m.bar = m.bars.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Spinner(nil), decor.Name(" "), status))
	return m
}

// close takes the status line away; further lines are printed plainly.
func (m *meter) close() {
	m.mu.Lock()
	bars, bar := m.bars, m.bar
	m.bars = nil
	m.mu.Unlock()
	if bars != nil {
		bar.Abort(true)
		bars.Wait()
	}
}

// keep writes what is shown from now on to a file as well, as JSON lines with
// the fields apart.
func (m *meter) keep(path string) error {
	config := zap.NewProductionConfig()
	config.Sampling = nil // every line counts
	config.OutputPaths, config.ErrorOutputPaths = []string{path}, []string{path}
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	log, err := config.Build(zap.WithCaller(false))
	if err != nil {
		return blame.Errorf(blame.Infrastructure, "log: %w", err)
	}
	m.log = log
	return nil
}

// line prints one line above the status.
func (m *meter) line(format string, args ...any) {
	m.mu.Lock()
	bars := m.bars
	m.mu.Unlock()
	text := fmt.Sprintf("[%s] %s: %s\n", clock(time.Since(m.start)), m.name, fmt.Sprintf(format, args...))
	if bars != nil {
		fmt.Fprint(bars, text)
		return
	}
	fmt.Fprint(m.out, text)
}

// update takes a report of the engine or the runner.
func (m *meter) update(u bisect.Update) {
	m.note(u)
	m.log.Info(string(u.Phase), zap.String("commit", u.Commit.ID), zap.Int("vcpus", u.VCPUs),
		zap.String("profile", string(u.Profile)), zap.Bool("done", u.Done), zap.String("text", u.Text),
		zap.Duration("took", u.Took), zap.Int("candidates", u.Left), zap.Int("steps", u.Steps))
	switch what := strings.TrimSpace(subject(u)); {
	case u.Phase == bisect.Building && u.Done:
		m.line("built %s: %s%s", what, u.Text, took(u.Took))
	case u.Phase == bisect.Booting && u.Done:
		m.line("booted %s, %d vCPU, %s: %s%s", u.Commit.Short(), u.VCPUs, u.Profile, u.Text, took(u.Took))
	case u.Phase == bisect.Walking && u.Done:
		m.line("%s is %s", u.Commit.Short(), u.Text)
	case u.Phase == bisect.Walking:
		m.line("testing %s: %d candidates, about %d steps%s", what, u.Left, u.Steps, m.left())
	case u.Phase == bisect.Confirming && m.commits == 0:
		m.line("comparing at %d vCPU", u.VCPUs)
	case u.Phase == bisect.Confirming:
		m.line("confirming %s against its parent at %d vCPU", what, u.VCPUs)
	case u.Phase == bisect.Calibrating && u.Text != "":
		m.line("%s", u.Text)
	case u.Phase == bisect.Calibrating:
		m.line("measuring both ends at %d vCPU", u.VCPUs)
	}
}

func (m *meter) note(u bisect.Update) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.since = u, time.Now()
	switch u.Phase {
	case bisect.Building:
		m.objects = [2]int{}
		if u.Done {
			m.builds.add(u.Took)
		}
	case bisect.Booting:
		if u.Done && u.Took > 0 {
			m.boots.add(u.Took)
			m.inPhase++
		}
	default:
		if u.Phase == bisect.Walking {
			m.walk = u
		}
		if u.Phase != m.phase {
			m.phase, m.inPhase = u.Phase, 0
		}
	}
}

// expect tells how many commits the range has.
func (m *meter) expect(commits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits = commits
}

// compiled counts objects of the build in hand.
func (m *meter) compiled(done, expected int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = [2]int{done, expected}
}

// status is the line that goes on changing.
func (m *meter) status() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", m.name, m.phase)
	if m.phase == bisect.Walking {
		fmt.Fprintf(&b, ", %d candidates, about %d steps", m.walk.Left, m.walk.Steps)
	}
	switch m.now.Phase {
	case bisect.Building:
		fmt.Fprintf(&b, " | building %s", m.now.Commit.Short())
		if m.objects[0] > 0 {
			fmt.Fprintf(&b, " (%d objects%s)", m.objects[0], of(m.objects[1]))
		}
	case bisect.Booting:
		fmt.Fprintf(&b, " | booting %s, %d vCPU, %s", m.now.Commit.Short(), m.now.VCPUs, m.now.Profile)
	}
	fmt.Fprintf(&b, " %s", clock(time.Since(m.since)))
	b.WriteString(about(m.remaining()))
	return b.String()
}

// left is the estimate for a line.
func (m *meter) left() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return about(m.remaining())
}

func about(left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf(", about %s left", clock(left))
}

func of(expected int) string {
	if expected == 0 {
		return ""
	}
	return fmt.Sprintf(" of about %d", expected)
}

// remaining estimates the time left from the pace so far and the boots and
// builds that the phases still need at least.
func (m *meter) remaining() time.Duration {
	if m.boots.n == 0 {
		return 0
	}
	boots, builds := m.counts*bootsOfPair, 0
	switch m.phase {
	case bisect.Calibrating:
		boots += max(0, bootsOfEnds-m.inPhase)
		if m.walk.Left == 0 { // the walk has not begun
			builds = bits.Len(uint(m.commits))
			boots += builds
		}
	case bisect.Walking:
		boots, builds = boots+m.walk.Steps, m.walk.Steps
	case bisect.Confirming:
		boots = max(0, boots-m.inPhase)
	}
	return time.Duration(boots)*m.boots.mean() + time.Duration(builds)*m.builds.mean()
}

func took(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", d.Round(100*time.Millisecond))
}

func subject(u bisect.Update) string {
	if u.Commit.ID == "" {
		return ""
	}
	return u.Commit.String()
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}
