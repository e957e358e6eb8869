package spec

import (
	"reflect"
	"strings"
	"testing"
)

func TestAfter(t *testing.T) {
	job, err := ParseJob("f", []byte("image: x\nafter: [prep, 123, {run: mesh, on: end}]\n"), "/d")
	if want := []After{{Run: "prep"}, {Run: "123"}, {Run: "mesh", On: AfterEnd}}; err != nil || !reflect.DeepEqual(job.After, want) {
		t.Errorf("%v: got %+v, want %+v", err, job, want)
	}
	for after, want := range map[string]string{
		"prep":                   "a list is wanted",
		"['']":                   "names no run",
		"[{on: end}]":            "names no run",
		"[{run: a, on: failed}]": "one of success, failure, end",
		"[{runs: a}]":            `did you mean "run"?`,
	} {
		if _, err := ParseJob("f", []byte("image: x\nafter: "+after+"\n"), "/d"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", after, err, want)
		}
	}
}

// TestSMTP: a mail server is reached in a way that can be, and its secrets are shown to the
// user of another one's Beefile.
func TestSMTP(t *testing.T) {
	for smtp, want := range map[string]string{
		"{server: mail.example.org}": "",
		"{server: 'mail.example.org:587', user: a, password: {env: P}, from: b@x.org}": "",
		"{server: 'mail.example.org:smtp'}":                                            "is no server",
		"{server: 'https://mail.example.org'}":                                         "is no server",
		"{user: a}":                                                                    "is no server",
		"{server: m, user: a}":                                                         "needs a `password`",
		"{server: m, password: {env: P}}":                                              "needs a `user`",
		"{server: m, user: a, password: {}}":                                           "exactly one",
		"{server: m, from: nobody}":                                                    "is no address",
	} {
		_, err := ParseJob("f", []byte("image: x\nnotify: [{mail: ann@example.org, smtp: "+smtp+"}]\n"), "/d")
		if got := ""; err != nil && (want == "" || !strings.Contains(err.Error(), want)) || err == nil && got != want {
			t.Errorf("%s: got %v, want %q", smtp, err, want)
		}
	}
	job, err := ParseJob("f", []byte("image: x\nnotify: [{mail: ann@example.org, smtp: {server: m, user: a, password: {exec: pass mail}}}]\n"), "/d")
	if err != nil {
		t.Fatal(err)
	}
	seen := ""
	for _, r := range job.Reaches("/d") {
		seen += r.Key + " "
	}
	if !strings.Contains(seen, "smtp.server") || !strings.Contains(seen, "smtp.password.exec") {
		t.Errorf("the user is asked for %s", seen)
	}
}
