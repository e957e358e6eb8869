package spec

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

const someDigest = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"

func TestParseRemote(t *testing.T) {
	for text, want := range map[string]struct {
		r    Remote
		name string
	}{
		"https://example.org/a/data.nc":                            {Remote{URL: "https://example.org/a/data.nc"}, "data.nc"},
		"https://example.org:8443/d%20e?version=2#part":            {Remote{URL: "https://example.org:8443/d%20e?version=2"}, "d e"},
		"s3://bucket/a/b.nc":                                       {Remote{Bucket: "bucket", Key: "a/b.nc"}, "b.nc"},
		"s3://bucket/k?endpoint=https://s3.lab&region=x&profile=p": {Remote{Bucket: "bucket", Key: "k", Endpoint: "https://s3.lab", Region: "x", Profile: "p"}, "k"},
	} {
		r, _, err := ParseRemote(text)
		if err != nil || r != want.r || r.Name() != want.name {
			t.Errorf("%s: %+v named %q, %v", text, r, r.Name(), err)
		}
	}
	for _, text := range []string{
		"http://example.org/x", "file:///etc/passwd", "ftp://x/y", "https://", "https:///x", "https://example.org", "https://example.org/", "https://example.org/..",
		"https://example.org/a%2fb%00", "https://ann:secret@example.org/x", "https://ann@example.org/x", "https://example.org/x?X-Amz-Signature=secret", "https://example.org/x?a=1&SIG=secret",
		"https://example.org/x?token=secret", "https://example.org/x y", "https://example.org/" + strings.Repeat("x", 300), "s3://bucket", "s3://bucket/", "s3://bucket/dir/", "s3://B/k", "s3://bucket/k?key=secret",
	} {
		r, hint, err := ParseRemote(text)
		if err == nil || hint == "" {
			t.Errorf("%s: %+v, hint %q", text, r, hint)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRemoteInputs of a Beefile have a digest behind https, and leave its directory.
func TestRemoteInputs(t *testing.T) {
	dir := t.TempDir()
	parse := func(inputs string) (*Job, error) {
		return ParseJob("job.yaml", []byte("image: debian:12\nrun: x\ninputs: ["+inputs+"]\n"), dir)
	}
	j, err := parse("{from: 'https://example.org/x', sha256: " + strings.ToUpper(someDigest) + ", to: /work/}, {from: 's3://bucket/k', to: /data/k}")
	if err != nil {
		t.Fatal(err)
	}
	if j.Inputs[0] != (Input{From: "https://example.org/x", To: "/work/", SHA256: someDigest}) || j.Inputs[1].From != "s3://bucket/k" {
		t.Errorf("got %+v", j.Inputs)
	}
	reaches := j.Reaches(dir)
	if len(reaches) != 2 || reaches[0].What != "https://example.org/x" || reaches[1].What != "s3://bucket/k" {
		t.Errorf("it leaves its directory by %+v", reaches)
	}
	again, err := FromRecord("record", *j, "/elsewhere")
	if err != nil || again.Inputs[0] != j.Inputs[0] || again.Inputs[1] != j.Inputs[1] {
		t.Errorf("from a record: %+v, %v", again, err)
	}
	for _, inputs := range []string{
		"{from: 'https://example.org/x', to: /work/}", "{from: 'https://example.org/x', sha256: abc, to: /work/}", "{from: 's3://bucket/k', sha256: " + someDigest[1:] + ", to: /work/}",
		"{from: ./x, sha256: " + someDigest + ", to: /work/}", "{from: 'http://example.org/x', sha256: " + someDigest + ", to: /work/}", "{from: 's3://bucket/k', to: work}", "{from: 's3://bucket/k'}",
	} {
		if j, err := parse(inputs); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %+v, %v", inputs, j, err)
		}
	}
	draft := DraftOf("job.yaml", []byte("image: debian:12\nrun: x\ninputs: [{from: 's3://bucket/k', to: /data/k}]\n"), dir)
	draft.CheckHere()
	if _, err := draft.Finish(); err != nil {
		t.Errorf("it is looked for here: %v", err)
	}
	for _, to := range []string{"https://example.org/x", "file:///x", "gs://b/c"} {
		if j, err := ParseJob("job.yaml", []byte("image: debian:12\nrun: x\noutputs: [{from: x, to: '"+to+"'}]\n"), dir); !core.IsKind(err, core.Invalid) {
			t.Errorf("outputs to %s: %+v, %v", to, j, err)
		}
	}
}

// TestOutputsToBuckets leave the directory, and two runs write no object at one time.
func TestOutputsToBuckets(t *testing.T) {
	dir := t.TempDir()
	parse := func(to string) *Job {
		t.Helper()
		j, err := ParseJob("job.yaml", []byte("image: debian:12\nrun: x\noutputs: [{from: /work/res, to: '"+to+"'}]\n"), dir)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	a := parse("s3://bucket/a/${run.name}")
	if got := a.Outputs[0].To; got != "s3://bucket/a/job" {
		t.Errorf("it goes to %s", got)
	}
	if r := a.Reaches(dir); len(r) != 1 || r[0].Key != "outputs[0].to" || r[0].What != "s3://bucket/a/job" {
		t.Errorf("it leaves its directory by %+v", r)
	}
	for to, want := range map[string]bool{
		"s3://bucket/a/job": true, "s3://bucket/a/job/": true, "s3://bucket/a": false, "s3://bucket/a/job/res": true, "s3://other/a/job": false,
		"s3://bucket/a/job?endpoint=https://s3.lab": false, "./a/job": false, "s3://bucket": false,
	} {
		if got := a.Collision(parse(to)) != ""; got != want {
			t.Errorf("%s and %s: %v", a.Outputs[0].To, to, got)
		}
	}
}
