package recordcmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/bee-hpc/bee/internal/web"
	"github.com/spf13/cobra"
)

// webView is the address of pages as --json gives it.
type webView struct {
	Address string `json:"address"`
	// Forward is the command that forwards it, on a machine that the user reached by ssh.
	Forward string `json:"forward,omitempty"`
}

// WebCommand returns the command `web`.
func (a *Commands) WebCommand() *cobra.Command {
	var listen string
	var asJSON bool
	c := &cobra.Command{
		Use: "web", Short: "Serve pages about your runs to your browser", Args: cobra.NoArgs,
		Long: `Serve pages about your runs to a browser on this machine, until Ctrl-C. They show lists
of runs, what a run does and where its time went, logs, outputs and sites, and follow
changes. The log of a run that computes comes from its site, as by bee logs, which opens a
connection. On the page of a run you can stop, checkpoint, move and resume it, or run its
job again. Each action shows what it will do, and then runs that command of bee.

The command prints an address. It works once: the browser that opens it first may read
your runs and act on them, until this command ends. Then the address of the next browser is printed.
Nothing else can read the pages, and no other machine reaches them. From another machine,
forward the address by ssh -L, as it is printed where you came by ssh.

On a machine that others use, give a socket by --listen unix:PATH. A user who listens at
a fixed port after you can take over pages that are still open. Another user can also make
pages at a port slow by many connections. The proxy of a portal, such as Open OnDemand, is
refused so far.`,
		Example: "  bee web\n  bee web --listen 127.0.0.1:8023\n  bee web --listen unix:$XDG_RUNTIME_DIR/bee.sock",
		RunE:    func(c *cobra.Command, _ []string) error { return a.web(c.Context(), listen, asJSON) },
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "listen at this `address` of the loopback, or at unix:PATH (port 0: any that is free)")
	c.Flags().BoolVar(&asJSON, "json", false, "write each address as JSON, on a line of its own")
	return c
}

func (a *Commands) web(ctx context.Context, listen string, asJSON bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	listener, err := web.Listen(ctx, listen)
	if err != nil {
		return err
	}
	server := web.New(&webRecords{a, s})
	forward := ""
	if os.Getenv("SSH_CONNECTION") != "" || strings.HasPrefix(listen, "unix:") {
		forward = web.Forward(listener, hereBySSH())
	}
	announce := func() error {
		v := webView{web.Address(listener) + server.Login(), forward}
		if asJSON {
			return a.WriteJSONLine(v)
		}
		_, err := fmt.Fprintln(a.Stdout, v.Address)
		return err
	}
	server.Used = func() {
		a.Say("a browser has opened the pages; the next one needs this address:")
		if err := announce(); err != nil {
			a.PrintError(err)
		}
	}
	if err := announce(); err != nil {
		return err
	}
	if forward != "" && !asJSON {
		a.Say("on the machine of your browser, first: %s", forward)
	}
	a.Say("open the address in a browser; it works once. Ctrl-C ends the pages")
	return server.Serve(ctx, listener)
}

// hereBySSH is this machine and user as another machine gives them to ssh.
func hereBySSH() string {
	host, err := os.Hostname()
	if err != nil {
		host = "HOST"
	}
	name := cmp.Or(os.Getenv("USER"), "USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + host
}
