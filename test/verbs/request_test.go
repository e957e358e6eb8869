package verbs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/goccy/go-yaml"
)

// TestRequestsOfAStudy has the program of the study rdma-rpc ask a server of two threads on another port.
func TestRequestsOfAStudy(t *testing.T) {
	cc, dir := testkit.RequireTool(t, "gcc"), t.TempDir()
	text, _ := studies.Text("rdma-rpc")
	var study struct {
		Job struct {
			Build struct {
				Run []string `yaml:"run"`
			} `yaml:"build"`
		} `yaml:"job"`
	}
	if err := yaml.Unmarshal([]byte(text), &study); err != nil || len(study.Job.Build.Run) != 1 {
		t.Fatalf("the study builds %q, %v", study.Job.Build.Run, err)
	}
	_, source, _ := strings.Cut(study.Job.Build.Run[0], "<<'EOF'\n")
	source, _, _ = strings.Cut(source, "\nEOF\n")
	file, program := filepath.Join(dir, "rpc.c"), filepath.Join(dir, "rpc")
	if err := os.WriteFile(file, []byte(source+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pthread", "-o", program, file, "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	h, port := newHost(t), strconv.Itoa(testkit.FreePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server, said := h.command(ctx, 0, program, "serve", port, "2", "3")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	client, rate := h.command(ctx, 1, program, "ask", "localhost", port, "3", "2000")
	if err := client.Run(); err != nil || !regexp.MustCompile(`^rate [0-9.]*[1-9][0-9]*\n$`).Match(rate.Bytes()) {
		t.Errorf("the client prints %q, %v", rate, err)
		cancel() // the server may wait for it
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ends with %v: %s", err, said)
	}
	alone, _ := h.command(t.Context(), 1, program, "ask", "localhost", port, "0", "1")
	if err := alone.Run(); err == nil {
		t.Error("no client asks")
	}
	h.empty(t)
}
