package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bisectd/vm/guest/proto"
)

// TestNoJob says Hello all the same, so that the host learns that the kernel
// has booted, and why nothing more comes.
func TestNoJob(t *testing.T) {
	var stream bytes.Buffer
	a := agent{out: proto.NewWriter(&stream)}
	if err := a.guarded(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	r, err := proto.NewReader(&stream).Read()
	if err != nil || r.Kind != proto.KindHello || r.Hello.Release == "" || r.Hello.Uptime <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if stream.Len() != 0 {
		t.Errorf("%d bytes after Hello", stream.Len())
	}
}

// TestPanicIsTold turns a panic into the text of End.
func TestPanicIsTold(t *testing.T) {
	err := (&agent{}).guarded()
	if err == nil || !strings.Contains(err.Error(), "agent: panic: ") || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("got %v", err)
	}
}

func TestReadJob(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":1,"id":"a","steps":[]}`: "",
		`{"version":2}`:                     "version 2",
		`{`:                                 "unexpected end",
	} {
		path := filepath.Join(t.TempDir(), "job.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var a agent
		err := a.readJob(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
