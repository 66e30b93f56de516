package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"bisectd/bisect"
	"bisectd/bisect/report"
	"bisectd/blame"
)

// formats are what a run leaves in its job's directory, by suffix.
var formats = map[string]func(io.Writer, bisect.Result) error{".txt": report.Text, ".json": report.JSON}

// checkReports makes the directory and tries to write there: a mistake in it
// must not come to light when the night is over.
func checkReports(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return blame.Errorf(blame.User, "report directory: %w; change report.dir of the job", err)
	}
	f, err := os.CreateTemp(dir, ".bisectd-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return blame.Errorf(blame.User, "report directory: %w; change report.dir of the job", err)
	}
	return nil
}

// writeReports puts every format of the report into the job's directory.
func writeReports(r bisect.Result) error {
	if r.Job.Report.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(r.Job.Report.Dir, 0o755); err != nil {
		return blame.Errorf(blame.User, "report directory: %w", err)
	}
	for suffix, render := range formats {
		var text strings.Builder
		if err := render(&text, r); err != nil {
			return err
		}
		path := filepath.Join(r.Job.Report.Dir, r.Run+suffix)
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			return blame.Errorf(blame.User, "report: %w", err)
		}
	}
	return nil
}
