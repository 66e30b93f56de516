package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"bisectd/bisect"
)

// TestComparePackagedKernel compares a packaged kernel with itself: a byte
// behind the end of an image is none of the kernel's.
func TestComparePackagedKernel(t *testing.T) {
	image, modules := os.Getenv("BISECTD_TEST_KERNEL"), os.Getenv("BISECTD_TEST_MODULES")
	if image == "" || testing.Short() {
		t.Skip("boots a packaged kernel: 'make integration' fetches one and sets BISECTD_TEST_KERNEL")
	}
	content, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	twin := filepath.Join(dir, "twin")
	if err := os.WriteFile(twin, append(content, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--state", filepath.Join(dir, "state"), "--cache", filepath.Join(dir, "cache"), "--min-free", "1",
		"compare", image, twin, "--accel", "tcg", "--format", "json",
		"--workload", "stress-ng/timer", "--arg", "timer-freq=1000", "--duration", "1s", "--runs", "1", "--min-effect", "40%"}
	if modules != "" {
		args = append(args, "--old-modules", modules, "--new-modules", modules)
	}
	var out bytes.Buffer
	status := run(args, &out, os.Stderr)
	var r bisect.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("status %d: %v\n%s", status, err, out.String())
	}
	if status != exitDone || r.Class != bisect.NotReproduced || len(r.Findings) != 1 || r.Builds != 0 || r.Boots < 4 {
		t.Errorf("status %d, %s (%v), %d findings, %d builds, %d boots", status, r.Class, r.Reasons, len(r.Findings),
			r.Builds, r.Boots)
	}
}
