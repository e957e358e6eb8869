package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
)

// Asked is what a page asks of a run.
type Asked struct {
	Name report.ActionName
	// Attempt is the one that the page has shown; 0: there was none. No later one is meant.
	Attempt int
	// Site is where the run shall continue; "": where it can.
	Site string
}

// Done is what came of a request.
type Done struct {
	// Printed are the messages of the command.
	Printed []string `json:"printed"`
	// Run is the new run, where there is one.
	Run string `json:"run,omitempty"`
}

// actions lists what the user can ask of a run now.
func (s *Server) actions(w http.ResponseWriter, r *http.Request) {
	writeJSON(w)(s.Records.Actions(r.Context(), r.PathValue("run")))
}

// act asks something of a run. Browsers name the origin of a page in each request that
// changes something; a request that names none is not of a page.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != "http://"+r.Host {
		http.Error(w, "bee web: this request is not of a page of bee web", http.StatusForbidden)
		return
	}
	q := r.URL.Query()
	attempt, err := strconv.Atoi(q.Get("attempt"))
	if err != nil || attempt < 0 {
		writeError(w, &core.Error{Kind: core.Invalid, Op: "read attempt", Object: strconv.Quote(q.Get("attempt")), Err: errors.New("it is no number of an attempt"), Remedy: "Load the page again."})
		return
	}
	writeJSON(w)(s.Records.Act(r.Context(), r.PathValue("run"), Asked{report.ActionName(r.PathValue("action")), attempt, q.Get("site")}))
}
