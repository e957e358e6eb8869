package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

// lastWordsTime is how long a node may take to end that has closed its line.
const lastWordsTime = 2 * time.Second

// withLastWords brings the nodes' logs home, which go with the hosts, and adds to
// the loss of the head what it said last: that is the cause, mostly.
func (a *attempt) withLastWords(ctx context.Context, cause error) error {
	home := a.c.Store.RunDir(a.run.ID)
	for begun := time.Now(); time.Since(begun) < lastWordsTime; { // it says why when it ends
		if alive, err := a.lease.NodeAlive(ctx, 0); err != nil || !alive || sleep(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	a.fetchLogs(ctx, home)
	if !core.IsKind(cause, core.Lost) && !core.IsKind(cause, core.Transient) {
		return cause
	}
	raw, _ := readLast(NodeLog(home, a.rec.N, 0), 64<<10) // what it has not is not told
	return lastWords(cause, a.site.Name, strings.TrimSpace(core.Printable(string(raw), 10*len(raw)+3)), fmt.Sprintf("`bee logs --node 0 %s` shows all that it said.", a.run.ID))
}

// lastWords is the loss of a head by what its log says last: why it has ended, if it
// could still tell, with the remedy that belongs to that.
func lastWords(cause error, site, log, remedy string) error {
	last := log[strings.LastIndexByte(log, '\n')+1:]
	if last == "" {
		return cause
	}
	e := &core.Error{Kind: core.KindOf(cause), Op: "start on site", Object: site, Remedy: remedy}
	why := field(last, "err")
	if field(last, "msg") != protocol.NodeEnded || why == "" {
		e.Err = fmt.Errorf("%w; its node said last: %s", cause, last)
		return e
	}
	e.Err = errors.New(why)
	if own := field(last, "remedy"); own != "" {
		e.Remedy = own
	}
	if kind := core.KindNamed(field(last, "kind")); passable(&core.Error{Kind: kind}) {
		e.Kind = kind
	}
	return e
}

// field is what a line of slog's text has for a key, or "".
func field(line, key string) string {
	_, rest, _ := strings.Cut(line, " "+key+"=")
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		word, _ := strconv.Unquote(quoted) // it is quoted
		return word
	}
	word, _, _ := strings.Cut(rest, " ")
	return word
}
