package web

import (
	"net/http"
	"path"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report/page"
)

// kinds are the types of the embedded files.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// static answers with an embedded file.
func static(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		raw, err := files.ReadFile("static/" + name)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", kinds[path.Ext(name)])
		_, err = w.Write(raw)
		core.BestEffort(err) // else the browser has gone
	}
}

// style answers with the style of reports, and that of these pages.
func style(w http.ResponseWriter, _ *http.Request) {
	own, err := files.ReadFile("static/style.css")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, err = w.Write(append([]byte(page.Style+"\n"), own...))
	core.BestEffort(err) // else the browser has gone
}
