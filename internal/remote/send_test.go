package remote

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// fileOf makes a file with a text.
func fileOf(t *testing.T, data []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestSend: an object is replaced by its writer alone, or where that is allowed.
func TestSend(t *testing.T) {
	server := s3server.StartFound(t)
	to, err := NewSender(t.Context(), Place{Bucket: server.Bucket, Prefix: "results"})
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(server.Dir, "results", name))
		if err != nil {
			t.Error(err)
		}
		return string(raw)
	}
	ann, bob := Stored{"run1", "ann@host/jöb"}, Stored{"run2", "bob@host/job"}
	for _, c := range []struct {
		text    string
		by      Stored
		replace bool
		there   string
	}{
		{"one", ann, false, "one"}, {"two", Stored{"run3", ann.Writer}, false, "two"}, {"three", bob, false, "two"}, {"four", bob, true, "four"}, {"five", ann, false, "four"},
	} {
		err := to.Send(t.Context(), "a/b", fileOf(t, []byte(c.text)), c.by, c.replace)
		if (err == nil) != (c.text == c.there) || err != nil && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", c.text, err)
		}
		if got := object("a/b"); got != c.there {
			t.Errorf("%s: it has %q", c.text, got)
		}
	}
	client, err := s3client.New(t.Context(), s3client.Settings{Bucket: server.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	key := "results/others"
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &server.Bucket, Key: &key, Body: strings.NewReader("others")}); err != nil {
		t.Fatal(err)
	}
	if err := to.Send(t.Context(), "others", fileOf(t, []byte("x")), ann, false); !errors.Is(err, fs.ErrExist) || object("others") != "others" {
		t.Errorf("over an object of another program: %v", err)
	}
	to.Notes = filepath.Join(t.TempDir(), "notes")
	large := bytes.Repeat([]byte("large "), (wholeSize+1<<20)/6)
	if err := to.Send(t.Context(), "large", fileOf(t, large), ann, false); err != nil || object("large") != string(large) {
		t.Errorf("a file of several parts: %v", err)
	}
	if left, err := os.ReadDir(to.Notes); err != nil || len(left) != 0 {
		t.Errorf("notes of a file that was sent: %v, %v", left, err)
	}
	if err := to.Send(t.Context(), "large", fileOf(t, large), bob, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file of several parts: %v", err)
	}
	var all sync.WaitGroup
	var stored atomic.Int32
	for range 8 {
		f := fileOf(t, []byte("x"))
		all.Go(func() {
			by := Stored{"run", f.Name()}
			switch err := to.Send(t.Context(), "at once", f, by, false); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := stored.Load(); n != 1 {
		t.Errorf("%d of 8 writers have stored one object", n)
	}
}

func TestKeys(t *testing.T) {
	for name, want := range map[string]string{"a/b": "p/a/b", "é": "p/é", "\xff/x": "p/%FF/x", "a%b": "p/a%b"} {
		if got := keyOf("p", name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := keyOf("", "a"); got != "a" {
		t.Errorf("without a prefix: %q", got)
	}
	long := strings.Repeat("x/", 500)
	if got := keyOf("p", long); len(got) > mostKey || !strings.HasPrefix(got, "p/long-names/") || got == keyOf("p", long+"y") {
		t.Errorf("a long one: %q", got)
	}
}

// TestUploadsOfAKilledProcess leave nothing in the bucket once they are aborted, also where the
// bucket's answer did not come before. Those of others stay.
func TestUploadsOfAKilledProcess(t *testing.T) {
	server, client := bucket(t)
	begin := func(key string) string {
		t.Helper()
		u, err := client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &server.Bucket, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		return *u.UploadId
	}
	there := func() (keys []string) {
		t.Helper()
		page, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &server.Bucket})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page.Uploads {
			keys = append(keys, *u.Key)
		}
		slices.Sort(keys)
		return keys
	}
	notes := filepath.Join(t.TempDir(), "notes")
	note := func(key, id string) {
		t.Helper()
		n := Note{dir: notes, Upload: Upload{Place: Place{Bucket: server.Bucket, Prefix: "p"}, Key: key, ID: id, Begun: time.Now()}}
		if err := n.Write(); err != nil {
			t.Fatal(err)
		}
	}
	note("p/known", begin("p/known"))
	note("p/over", "no-such-upload")
	begin("p/unanswered")
	note("p/unanswered", "")
	begin("p/unanswered-longer")
	begin("p/two")
	begin("p/two")
	note("p/two", "")
	begin("p/others")
	if list, err := Uploads(notes); err != nil || len(list) != 4 {
		t.Errorf("noted: %v, %v", list, err)
	}
	if err := Abort(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(there(), " "); got != "p/others p/two p/two p/unanswered-longer" {
		t.Errorf("left in the bucket: %s", got)
	}
	if list, err := Uploads(notes); err != nil || len(list) != 0 {
		t.Errorf("still noted: %v, %v", list, err)
	}
	note("p/known", "x")
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := Abort(ctx, notes); err == nil {
		t.Error("a bucket that does not answer has aborted an upload")
	}
	if list, err := Uploads(notes); err != nil || len(list) != 1 {
		t.Errorf("what could not be aborted is forgotten: %v, %v", list, err)
	}
}
