package dataimage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestUnfinishedImagesDoNotStay: neither one's own that was given up, nor those of makers
// that were killed; but those that someone makes.
func TestUnfinishedImagesDoNotStay(t *testing.T) {
	dir, from := t.TempDir(), t.TempDir()
	left := filepath.Join(dir, unfinishedPrefix+"1")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	others, err := unfinished(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	there := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	image := filepath.Join(dir, "image")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (Tools{}).Make(ctx, image, from, LeastSize); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if names := there(); len(names) != 1 || filepath.Join(dir, names[0]) != others.Name() {
		t.Errorf("after one was given up there are %q", names)
	}
	if err := (Tools{}).Make(t.Context(), image, from, LeastSize); err != nil {
		t.Fatal(err)
	}
	if names := there(); len(names) != 2 {
		t.Errorf("after one was made there are %q", names)
	}
}
