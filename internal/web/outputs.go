package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// mostShown bounds what of a file is shown on a page, in bytes.
const mostShown = 8 << 20

// outputs lists the files that were collected.
func (s *Server) outputs(w http.ResponseWriter, r *http.Request) {
	writeJSON(w)(s.Records.Outputs(r.Context(), r.PathValue("run")))
}

// output writes the beginning of a file, for a page to show. Whatever is in it, the browser
// makes nothing of it: the page decides.
func (s *Server) output(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, err := s.open(r, download{run: r.PathValue("run"), place: q.Get("place"), name: q.Get("name")})
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	core.BestEffort(copied(w, io.LimitReader(f, mostShown))) // the page notices an end before its time
}

// offer answers with a link to a file that can be used once, as browsers store a file only
// from a link.
func (s *Server) offer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	d := download{run: r.PathValue("run"), place: q.Get("place"), name: q.Get("name")}
	f, err := s.open(r, d)
	if err != nil {
		writeError(w, err)
		return
	}
	f.Close()
	token := s.secrets.offer(d)
	if token == "" {
		writeError(w, &core.Error{Kind: core.Busy, Op: "offer", Object: d.name, Err: errors.New("too many files wait for their download"), Remedy: "Try again in a minute."})
		return
	}
	writeJSON(w)(map[string]string{"link": "files/" + token}, nil)
}

// file writes a file that was offered, for the browser to store.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	d, is := s.secrets.take(r.PathValue("token"))
	if !is {
		http.Error(w, "bee web: this link was used before, or is too old", http.StatusForbidden)
		return
	}
	readWhole(w)
	f, err := s.open(r, d)
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": core.Printable(path.Base(d.name), 255)}))
	core.BestEffort(copied(w, f)) // the browser notices an end before its time
}

func copied(w io.Writer, f io.Reader) error {
	_, err := io.Copy(w, f)
	return err
}

// open opens a file that is on record as collected. No link in its path is followed.
func (s *Server) open(r *http.Request, d download) (*os.File, error) {
	places, err := s.Records.Outputs(r.Context(), d.run)
	if err != nil {
		return nil, err
	}
	missing := func(err error) error {
		return &core.Error{Kind: core.NotFound, Op: "open output", Object: d.name, Err: err, Remedy: "The page of the run lists what was collected. Files that were moved or changed meanwhile are not shown."}
	}
	for _, p := range places {
		if p.To != d.place || !slices.ContainsFunc(p.Files, func(f File) bool { return f.Name == d.name }) {
			continue
		}
		root, err := fsutil.OpenRoot(p.To)
		if err != nil {
			return nil, missing(err)
		}
		defer root.Close()
		f, err := root.Open(d.name)
		if err != nil {
			return nil, missing(err)
		}
		return f, nil
	}
	return nil, missing(errors.New("no such file was collected"))
}
