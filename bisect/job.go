// Package bisect finds the commit that changed a result and says what kind of
// change it is. It holds the domain's types, the Engine that walks a range,
// and the interfaces the engine needs: Range (package history), Tester
// (package runner), Judge (package judge).
package bisect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"bisectd/blame"
	"bisectd/workloads"
)

// Job is what a user asks for; docs/job.md describes the file it comes from.
type Job struct {
	Name     string   `yaml:"name" json:"name"`
	Repo     string   `yaml:"repo" json:"repo"` // path of a git repository; relative to the job file
	Good     []string `yaml:"good" json:"good"`
	Bad      string   `yaml:"bad" json:"bad"`
	Kernel   Build    `yaml:"kernel" json:"kernel"`
	Machine  Machine  `yaml:"machine" json:"machine"`
	Workload Work     `yaml:"workload" json:"workload"`
	Judge    Rules    `yaml:"judge" json:"judge"`
	Verify   Checks   `yaml:"verify" json:"verify,omitzero"`
	Report   Output   `yaml:"report" json:"report"`
}

// Build says how kernels are built.
type Build struct {
	Config   []string `yaml:"config" json:"config"`     // embedded fragments over tinyconfig, later ones win
	Compiler string   `yaml:"compiler" json:"compiler"` // gcc
}

// Machine says what the guests look like.
type Machine struct {
	VCPUs  []int  `yaml:"vcpus" json:"vcpus"` // the walk uses the lowest count that separates the ends
	Memory Memory `yaml:"memory" json:"memory"`
	Accel  string `yaml:"accel" json:"accel"` // auto, kvm or tcg
}

// Work says what runs in a guest.
type Work struct {
	Name     string         `yaml:"name" json:"name"`
	Args     map[string]any `yaml:"args" json:"args,omitempty"` // the program's long options
	Duration Duration       `yaml:"duration" json:"duration"`   // of one execution
	Runs     int            `yaml:"runs" json:"runs"`           // executions a boot; their median counts once
}

// Rules are the user's bounds on the judgement.
type Rules struct {
	Metric    string  `yaml:"metric" json:"metric"`         // one that the workload reports
	MinEffect Percent `yaml:"min_effect" json:"min_effect"` // smaller changes of the metric are none
	Error     Percent `yaml:"error" json:"error"`           // accepted chance of a wrong answer over the whole walk
	// Signal is what to walk on: auto (also when empty), metric, crash, or the
	// name of a check of the probe, such as nanosleep-late.
	Signal string `yaml:"signal" json:"signal,omitempty"`
	// Checks are changed from what package judge says of them, by name.
	Checks map[string]Override `yaml:"checks" json:"checks,omitempty"`
}

// Override is a job's change of a check: off, or another bound in the check's
// unit.
type Override struct {
	Off   bool     `json:"off,omitempty"`
	Bound *float64 `json:"bound,omitempty"`
	At    string   `json:"-"` // "LINE:COLUMN: " in the job file
}

// What a walk can be told to go on, beside the name of a check.
const (
	AutoSignal = "auto"   // the cheapest signal in which the ends differ
	OnlyMetric = "metric" // the metric, whatever else differs
	OnlyCrash  = "crash"  // a failure of the bad end, however seldom it shows
)

// Checks are made at the final pair beside those that every job gets.
type Checks struct {
	// Layout has the pair built again with aligned functions where a small
	// shift of the metric is all there is: two builds from scratch.
	Layout bool `yaml:"layout" json:"layout,omitempty"`
}

// Output says where reports go.
type Output struct {
	Dir string `yaml:"dir" json:"dir,omitempty"` // relative to the job file; empty: none but the terminal's
}

// Limits of a job. QEMU's q35 takes 288 vCPUs; 64 is what one host can time.
const (
	maxVCPUs = 64
	maxRuns  = 99
	// maxMemory is what the guest's addresses of 40 bits reach.
	maxMemory = 1 << 20
)

// LoadJob reads a job file. Every mistake in it is blame.User, with line and
// column where the YAML has one.
func LoadJob(path string) (Job, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Job{}, blame.Errorf(blame.User, "job file: %w", err)
	}
	job, err := ParseJob(data)
	if err != nil {
		return Job{}, blame.Errorf(blame.User, "%s:%w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return Job{}, fmt.Errorf("job file: %w", err)
	}
	job.Repo = within(dir, job.Repo)
	if job.Report.Dir != "" {
		job.Report.Dir = within(dir, job.Report.Dir)
	}
	return job, nil
}

// NewJob returns a job with the defaults that docs/job.md lists.
func NewJob() Job {
	return Job{
		Name:     "job",
		Kernel:   Build{Config: []string{"guest", "timers"}, Compiler: "gcc"},
		Machine:  Machine{VCPUs: []int{1}, Memory: 1 << 10, Accel: "auto"},
		Workload: Work{Duration: Duration(3 * time.Second), Runs: 3},
		Judge:    Rules{MinEffect: 0.05, Error: 0.05},
	}
}

// ParseJob decodes and validates a job. Errors start with "LINE:COLUMN: ".
func ParseJob(data []byte) (Job, error) {
	defaults := NewJob()
	job := defaults
	// goccy keeps what a sequence held before: defaults must not lead the user's list.
	job.Kernel.Config, job.Machine.VCPUs = nil, nil
	if err := decode(data, &job); err != nil {
		return Job{}, err
	}
	if len(job.Kernel.Config) == 0 {
		job.Kernel.Config = defaults.Kernel.Config
	}
	if len(job.Machine.VCPUs) == 0 {
		job.Machine.VCPUs = defaults.Machine.VCPUs
	}
	if job.Name == "" {
		job.Name = defaults.Name
	}
	slices.Sort(job.Machine.VCPUs)
	if key, err := job.check(); err != nil {
		return Job{}, fmt.Errorf("%s: %s: %w", position(data, key), strings.TrimPrefix(key, "$."), err)
	}
	return job, nil
}

// Check says in one line what is wrong with a job that was put together
// otherwise than from a file: blame.User. It fills in the metric where that is
// missing.
func (j *Job) Check() error {
	if key, err := j.check(); err != nil {
		return blame.Errorf(blame.User, "%s: %w", strings.TrimPrefix(key, "$."), err)
	}
	return nil
}

// decode reads YAML strictly. The library panics on some malformed input, such
// as a tag it does not know in front of a list: that is the file's fault too.
func decode(data []byte, job *Job) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("1:1: this is no YAML that a job can be read from")
		}
	}()
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(job); err != nil {
		return yamlError(err)
	}
	return nil
}

// jobName is a job's name: runs, directories and reports are named after it.
var jobName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}$`)

// signalName is what a name of a signal looks like.
var signalName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// check returns the YAML path of the first wrong field and what is wrong.
func (j *Job) check() (string, error) {
	switch {
	case !jobName.MatchString(j.Name):
		return "$.name", fmt.Errorf("%q: use letters, digits and . _ + -, at most 100", j.Name)
	case j.Repo == "":
		return "$.repo", fmt.Errorf("missing: give the path of a git repository of the kernel")
	case len(j.Good) == 0 || slices.Contains(j.Good, ""):
		return "$.good", fmt.Errorf("missing: give a revision that shows the old result")
	case j.Bad == "":
		return "$.bad", fmt.Errorf("missing: give a revision that shows the new result")
	case j.Kernel.Compiler != "gcc":
		return "$.kernel.compiler", fmt.Errorf("%q is not supported; use gcc", j.Kernel.Compiler)
	case len(slices.Compact(slices.Clone(j.Machine.VCPUs))) != len(j.Machine.VCPUs):
		return "$.machine.vcpus", fmt.Errorf("a count is listed twice")
	case j.Machine.VCPUs[0] < 1 || j.Machine.VCPUs[len(j.Machine.VCPUs)-1] > maxVCPUs:
		return "$.machine.vcpus", fmt.Errorf("counts go from 1 to %d, got %v", maxVCPUs, j.Machine.VCPUs)
	case j.Machine.Memory < 128:
		return "$.machine.memory", fmt.Errorf("a guest needs at least 128M, got %s", j.Machine.Memory)
	case j.Machine.Memory > maxMemory:
		return "$.machine.memory", fmt.Errorf("a guest gets at most %s, not %s", Memory(maxMemory), j.Machine.Memory)
	case !slices.Contains([]string{"auto", "kvm", "tcg"}, j.Machine.Accel):
		return "$.machine.accel", fmt.Errorf("%q is none of auto, kvm, tcg", j.Machine.Accel)
	case j.Workload.Duration < Duration(100*time.Millisecond) || j.Workload.Duration > Duration(time.Hour):
		return "$.workload.duration", fmt.Errorf("goes from 100ms to 1h, got %s", j.Workload.Duration)
	case j.Workload.Runs < 1 || j.Workload.Runs > maxRuns:
		return "$.workload.runs", fmt.Errorf("goes from 1 to %d, got %d", maxRuns, j.Workload.Runs)
	case !(j.Judge.MinEffect > 0 && j.Judge.MinEffect < 1):
		return "$.judge.min_effect", fmt.Errorf("goes from above 0%% to below 100%%, got %s", j.Judge.MinEffect)
	case !(j.Judge.Error > 0 && j.Judge.Error <= 0.5):
		return "$.judge.error", fmt.Errorf("goes from above 0%% to 50%%, got %s", j.Judge.Error)
	}
	if j.Judge.Signal != "" && !signalName.MatchString(j.Judge.Signal) {
		return "$.judge.signal", fmt.Errorf("%q is none of auto, metric, crash and the names of checks (docs/semantics.md)",
			j.Judge.Signal)
	}
	return j.checkWorkload()
}

func (j *Job) checkWorkload() (string, error) {
	w, err := workloads.Lookup(j.Workload.Name)
	if err != nil {
		return "$.workload.name", err
	}
	if _, err := w.Command(j.Workload.Params()); err != nil {
		return "$.workload.args", err
	}
	known := w.Metrics()
	if j.Judge.Metric == "" {
		j.Judge.Metric = known[0]
	}
	if !slices.Contains(known, j.Judge.Metric) {
		return "$.judge.metric", fmt.Errorf("%s does not report %q; it reports %s",
			j.Workload.Name, j.Judge.Metric, strings.Join(known, ", "))
	}
	return "", nil
}

// Params converts the job's settings to the workload's form.
func (w Work) Params() workloads.Params {
	args := make(map[string]string, len(w.Args))
	for k, v := range w.Args {
		args[k] = fmt.Sprint(v)
	}
	return workloads.Params{Args: args, Duration: time.Duration(w.Duration)}
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// yamlError puts line and column in front and keeps the message on one line.
func yamlError(err error) error {
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		return fmt.Errorf("1:1: %s", firstLine(err.Error()))
	}
	at, message := located.GetToken().Position, firstLine(located.GetMessage())
	var mismatch *yaml.TypeError
	if errors.As(err, &mismatch) {
		message = fmt.Sprintf("%q does not fit here: %s is wanted", located.GetToken().Value, wanted(mismatch.DstType.Kind()))
	}
	return fmt.Errorf("%d:%d: %s", at.Line, at.Column, message)
}

// wanted names a YAML type as its users do.
func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	default:
		return "text"
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// position finds the line and column of a YAML path; a missing key is
// reported at the nearest parent that is there.
func position(data []byte, path string) string {
	for ; path != "$"; path = path[:strings.LastIndex(path, ".")] {
		p, err := yaml.PathString(path)
		if err != nil {
			break
		}
		node, err := p.ReadNode(bytes.NewReader(data))
		if err == nil && node != nil && node.GetToken() != nil {
			at := node.GetToken().Position
			return fmt.Sprintf("%d:%d", at.Line, at.Column)
		}
	}
	return "1:1"
}
