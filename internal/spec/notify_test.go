package spec

import (
	"strings"
	"testing"
	"time"
)

// TestNotify: what a receiver may be, in a Beefile and in a sites file.
func TestNotify(t *testing.T) {
	for text, want := range map[string]string{
		"[{webhook: 'https://example.org/hook', key: {file: k}}]":                 "",
		"[{webhook: 'http://127.0.0.1:8080/x', on: [failed, waiting>2h, moved]}]": "",
		"[{command: 'notify-send done'}, {mail: ann@example.org}, {mail: root}]":  "",
		"[{webhook: 'http://example.org/x'}]":                                     "anybody on the way",
		"[{webhook: 'https://ann:pw@example.org/x'}]":                             "password",
		"[{webhook: 'https://example.org/x?token=1'}]":                            "recorded",
		"[{webhook: 'ftp://example.org/x'}]":                                      "ftp://",
		"[{webhook: 'example.org'}]":                                              "no address",
		"[{mail: '-O x'}]":                                                        "no address",
		"[{mail: \"a@b\\nBcc: c\"}]":                                              "no address",
		"[{mail: a@b, command: x}]":                                               "exactly one",
		"[{on: [ended]}]":                                                         "exactly one",
		"[{command: x, key: {env: A}}]":                                           "only the body of a webhook",
		"[{webhook: 'https://example.org', key: {env: A, file: b}}]":              "exactly one",
		"[{command: x, on: [endet]}]":                                             "not known",
		"[{command: x, on: [waiting>soon]}]":                                      "no time to wait",
		"[{command: x, on: [waiting>0s]}]":                                        "no time to wait",
		"[{sms: 1}]":                                                              "unknown key",
	} {
		_, err := ParseJob("job.yaml", []byte("image: x\nnotify: "+text+"\n"), "/home/ann")
		_, serr := ParseSites("sites.yaml", []byte("sites: [{name: a, provider: local}]\nnotify: "+text+"\n"))
		for _, err := range []error{err, serr} {
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
	job, err := ParseJob("job.yaml", []byte("image: x\nnotify: [{on: [failed, waiting>2h], webhook: 'https://example.org/hook', key: {file: k}}, {command: beep}, {mail: ann}]\n"), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	if n := job.Notify[0]; n.Wants(NotifyEnded) || !n.Wants(NotifyFailed) || len(n.Waiting()) != 1 || n.Waiting()[0] != 2*time.Hour || n.Key.File != "/home/ann/k" {
		t.Errorf("got %+v", n)
	}
	if n := job.Notify[1]; !n.Wants(NotifyEnded) || !n.Wants(NotifySuspended) || n.Wants(NotifyMoved) {
		t.Errorf("got %+v", n)
	}
	var reaches []string
	for _, r := range job.Reaches("/home/ann") {
		reaches = append(reaches, r.String())
	}
	if got, want := strings.Join(reaches, "; "), "notify[0].webhook sends to https://example.org/hook; notify[0].key.file uses the secret in /home/ann/k; notify[1].command runs beep; notify[2].mail sends mail to ann"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if text, err := job.Beefile(); err != nil || !strings.Contains(string(text), "waiting>2h") || !strings.Contains(string(text), "command: beep") {
		t.Errorf("%v:\n%s", err, text)
	}
}
