package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/docs"
)

// TestPagesOfTopics: a formatter finds no fault in the page of a topic, and shows it.
func TestPagesOfTopics(t *testing.T) {
	dir := t.TempDir()
	if err := run([]string{"1.0", "2026-01-02", dir}); err != nil {
		t.Fatal(err)
	}
	for _, topic := range docs.Topics() {
		file := filepath.Join(dir, topic.Man+"."+topic.Section)
		if out, err := exec.CommandContext(t.Context(), "mandoc", "-Tlint", "-Wwarning", file).CombinedOutput(); err != nil {
			t.Errorf("mandoc finds faults (%v):\n%.2000s", err, out)
		}
	}
	shown, err := exec.CommandContext(t.Context(), "mandoc", "-Tutf8", filepath.Join(dir, "bee-exit-codes.7")).Output()
	if text := string(shown); err != nil || !strings.Contains(text, "207") || strings.Contains(text, "T{") || strings.Contains(text, "allbox") {
		t.Errorf("got %v:\n%s", err, text)
	}
	if err := run([]string{"1.0", "yesterday", dir}); err == nil {
		t.Error("it makes pages of no day")
	}
}
