package burst

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestKeysOfABucket: a process gets them on its standard input, and nothing that is printed or recorded has them.
func TestKeysOfABucket(t *testing.T) {
	keys := core.BucketKeys{ID: "an-id", Secret: "a-secret", Session: "a-session", Endpoint: "https://s3.example.org"}
	c := Config{ID: NewID(), Keys: &keys}
	p := exec.Command("cat")
	var got bytes.Buffer
	p.Stdout = &got
	send, err := c.sendKeys(p)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	send(true)
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if k, err := receiveKeys(&got); err != nil || k == nil || *k != keys {
		t.Errorf("a process has got other ones: %v", err)
	}
	for _, nothing := range []string{"", "{"} {
		if k, err := receiveKeys(strings.NewReader(nothing)); (err != nil) != (nothing != "") || err == nil && k != nil {
			t.Errorf("%q: %v", nothing, err)
		}
	}
	c.Keys.Secret = strings.Repeat("x", mostKeys)
	if _, err := c.sendKeys(exec.Command("cat")); err == nil {
		t.Error("a pipe has no room for these")
	}
	c.Keys = &keys
	record, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("of a volume", "keys", keys, "pointer", &keys, "config", c)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("of a volume", "keys", keys, "config", c)
	for _, text := range []string{string(record), log.String(), fmt.Sprint(keys), fmt.Sprintf("%v %+v %#v %s %q %x", keys, &keys, keys, keys, keys, keys), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", struct{ K core.BucketKeys }{keys})} {
		if strings.Contains(text, "a-secret") || strings.Contains(text, "a-session") || strings.Contains(text, fmt.Sprintf("%x", "a-secret")) {
			t.Errorf("it has the secret: %s", text)
		}
	}
}

// TestTheSameKeysAgain are no command, and have no drain tried again: who sends them again and again would keep the process.
func TestTheSameKeysAgain(t *testing.T) {
	v := &Volume{tree: remote.OpenS3(remote.Place{Bucket: "bucket"}, "test", t.TempDir(), nil), drainer: &drainer{hurry: make(chan struct{}, 1)}, o: Options{Log: slog.New(slog.DiscardHandler)}}
	defer v.tree.Close()
	s := &server{v: v}
	keys := core.BucketKeys{ID: "an-id", Secret: "a-secret", Endpoint: "http://127.0.0.1:1"}
	for i, changes := range []bool{true, false, false} {
		s.idle = time.Time{}
		if _, err := s.useKeys(t.Context(), calls.KeysOffer{Keys: keys}); err != nil {
			t.Fatal(err)
		}
		if used := !s.idle.IsZero(); used != changes || len(v.drainer.hurry) > 0 != changes {
			t.Errorf("offer %d: it counts as a command: %v, and the drain hurries: %v", i, used, len(v.drainer.hurry) > 0)
		}
		v.drainer.hurry = make(chan struct{}, 1)
	}
}
