package web

import (
	"context"
	"embed"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/bee-hpc/bee/internal/wire"
)

//go:embed static
var files embed.FS

// Server serves the pages of one user.
type Server struct {
	Records Records
	// Used is called when a browser has used the secret of the address.
	Used func()

	secrets *secrets
}

// New returns a server with secrets of its own.
func New(records Records) *Server { return &Server{Records: records, secrets: newSecrets()} }

// Login is the path, below an address of the server, that makes a browser the user's. It
// changes once it was used.
func (s *Server) Login() string { return loginPath + "?secret=" + s.secrets.current() }

// Handler answers requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", static("index.html"))
	for _, file := range []string{"actions.js", "app.js", "array.js", "compare.js", "dom.js", "icon.svg", "log.js", "login.js", "outputs.js", "run.js", "runs.js", "sites.js"} {
		mux.HandleFunc("GET /"+file, static(file))
	}
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("GET /files/{token}", s.file)
	for path, answer := range s.api() {
		mux.HandleFunc(path, s.keyed(answer))
	}
	return s.guard(mux)
}

// Bounds of connections, which every user of the machine can open.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 16 << 10
	endTime    = 2 * time.Second
	mostAtOnce = 200
)

// Serve answers on a listener until the context ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(io.Discard, "", 0), // others may send anything
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withConnection,
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve((&wire.Gate{Most: mostAtOnce}).Listener(listener)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}
