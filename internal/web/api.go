package web

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
)

// api are the answers about runs. Paths are below that of the page, which may be forwarded.
func (s *Server) api() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /api/runs": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w)(s.Records.Runs(r.Context(), r.URL.Query()))
		},
		"GET /api/runs/{run}": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w)(s.Records.Run(r.Context(), r.PathValue("run")))
		},
		"GET /api/arrays/{array}": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w)(s.Records.Array(r.Context(), r.PathValue("array"), r.URL.Query()))
		},
		"GET /api/compare": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w)(s.Records.Compare(r.Context(), r.URL.Query().Get("first"), r.URL.Query().Get("second")))
		},
		"GET /api/runs/{run}/metrics": func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w)(s.Records.Measured(r.Context(), r.PathValue("run")))
		},
		"GET /api/sites":                        func(w http.ResponseWriter, r *http.Request) { writeJSON(w)(s.Records.Sites(r.Context())) },
		"GET /api/runs/{run}/page":              s.page,
		"GET /api/runs/{run}/log":               s.log,
		"GET /api/runs/{run}/outputs":           s.outputs,
		"GET /api/runs/{run}/output":            s.output,
		"POST /api/runs/{run}/output":           s.offer,
		"GET /api/events":                       s.events,
		"GET /metrics":                          s.metrics,
		"GET /api/runs/{run}/actions":           s.actions,
		"POST /api/runs/{run}/actions/{action}": s.act,
	}
}

// writeJSON writes a fact, or why there is none.
func writeJSON(w http.ResponseWriter) func(any, error) {
	return func(v any, err error) {
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		core.BestEffort(json.NewEncoder(w).Encode(v)) // else the browser has gone
	}
}

// failure is an error in JSON, as --json-errors writes one.
type failure struct {
	Error struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Remedy  string `json:"remedy,omitempty"`
	} `json:"error"`
}

func writeError(w http.ResponseWriter, err error) {
	var f failure
	f.Error.Kind, f.Error.Message, f.Error.Remedy = core.KindOf(err).String(), err.Error(), core.Remedy(err)
	code := http.StatusInternalServerError
	switch core.KindOf(err) {
	case core.NotFound:
		code = http.StatusNotFound
	case core.Invalid:
		code = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	core.BestEffort(json.NewEncoder(w).Encode(f)) // else the browser has gone
}

// page writes a run as a part of a page.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	p, err := s.Records.Page(r.Context(), r.PathValue("run"))
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	core.BestEffort(p.Part(w)) // else the browser has gone
}

// metrics writes what monitoring reads.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	if err := s.Records.Metrics(r.Context(), w); err != nil {
		writeError(w, err)
	}
}

// log writes a part of a log, a piece of JSON on each line.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	number := func(name string, otherwise int64) int64 {
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return otherwise
		}
		return n
	}
	part := LogPart{
		Attempt: int(number("attempt", 0)), From: number("from", -1), Before: number("before", 0), Find: q.Get("find"), Follow: q.Get("follow") != "",
	}
	lines := newStream(w, "application/jsonl")
	ctx, end := lines.keep(r.Context())
	defer end()
	err := s.Records.Log(ctx, r.PathValue("run"), part, func(p LogPiece) error { return lines.line(p) })
	if err != nil && !core.Interrupted(err) {
		var f failure
		f.Error.Kind, f.Error.Message, f.Error.Remedy = core.KindOf(err).String(), err.Error(), core.Remedy(err)
		core.BestEffort(lines.line(f)) // else the browser has gone
	}
}

// events writes events as they come, as a stream of the server's.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	stream := newStream(w, "text/event-stream")
	ctx, end := stream.keep(r.Context())
	defer end()
	core.BestEffort(s.Records.Events(ctx, stream.event)) // the browser asks again
}
