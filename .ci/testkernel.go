//go:build ignore

// Command testkernel fetches a packaged kernel, without installing it, and
// prints the variables by which tests that boot a kernel find it.
//
//	go run .ci/testkernel.go CACHE PACKAGE
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"bisectd/kbuild/debpkg"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run .ci/testkernel.go CACHE PACKAGE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	image, err := debpkg.Kernel(ctx, os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testkernel:", err)
		os.Exit(1)
	}
	fmt.Printf("BISECTD_TEST_KERNEL=%s\nBISECTD_TEST_MODULES=%s\n", image.Vmlinuz, image.ModulesDir)
}
