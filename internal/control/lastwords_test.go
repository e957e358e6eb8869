package control

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

func TestWhatAHeadSaysLastIsTheReason(t *testing.T) {
	gone := &core.Error{Kind: core.Lost, Err: errors.New("it has ended")}
	said := func(msg string, args ...any) string {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, nil))
		log.Info("listening")
		log.Error(msg, args...)
		return strings.TrimSpace(b.String())
	}
	for name, c := range map[string]struct {
		log, message, remedy string
		kind                 core.Kind
	}{
		"its error": {
			said(protocol.NodeEnded, "rank", 0, "kind", core.Unsupported, "remedy", `Take "eth0".`, "err", "listen: kind=lost err=x\nno"),
			"start on site lab: listen: kind=lost err=x\nno", `Take "eth0".`, core.Unsupported,
		},
		"an error of one word":     {said(protocol.NodeEnded, "kind", core.Lost, "remedy", "", "err", "EOF"), "start on site lab: EOF", "see the log", core.Lost},
		"one that no site mends":   {said(protocol.NodeEnded, "kind", core.Permanent, "remedy", "", "err", "a b"), "start on site lab: a b", "see the log", core.Lost},
		"something else":           {said("mount refused", "err", "x"), `it has ended; its node said last: time=`, "see the log", core.Lost},
		"an end without its cause": {said(protocol.NodeEnded), "its node said last: ", "see the log", core.Lost},
		"a crash":                  {"panic: x", "it has ended; its node said last: panic: x", "see the log", core.Lost},
		"nothing":                  {"", "it has ended", "", core.Lost},
	} {
		err := lastWords(gone, "lab", c.log, "see the log")
		if !strings.Contains(err.Error(), c.message) || core.Remedy(err) != c.remedy || core.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%v): %s", name, err, core.KindOf(err), core.Remedy(err))
		}
	}
}
