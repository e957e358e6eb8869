package runner

import (
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// placeBurst completes what the nodes need for a burst buffer, if the plan has one. Sites other than this machine
// have records of their own, and find out by a mark whether they see a directory of this machine.
func (st *staging) placeBurst(b *protocol.Burst) error {
	if b == nil {
		return nil
	}
	mark := burstMark(st.rec, st.at.site)
	switch {
	case st.at.site.Provider == "local":
		b.Records = filepath.Join(st.rec.of.c.Store.Dir(), "volumes")
	case mark != "":
		b.Mark = filepath.Base(mark)
		if err := fsutil.WriteFile(mark, nil, 0o600); err != nil {
			return &core.Error{Kind: core.Invalid, Op: "use remote", Object: b.Remote, Err: err, Remedy: "It has to be a directory that is there, and in which you may write."}
		}
	}
	return nil
}

// burstMark is the file of an attempt by which hosts of a site find out whether they see the remote of a burst
// buffer; "": it is no directory, or the site is this machine.
func burstMark(rec *record, site spec.Site) string {
	v := rec.of.sub.Job.Volume
	if v.Kind != spec.VolumeBurst || site.Provider == "local" {
		return ""
	}
	to, err := spec.ParseStore(v.Remote)
	if err != nil || to.Dir == "" || to.Host != "" {
		return ""
	}
	o := rec.owner()
	return filepath.Join(to.Dir, fmt.Sprintf(".bee-mark-%s-%d", url.PathEscape(o.Run), o.Attempt))
}
