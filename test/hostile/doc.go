// Package hostile holds tests of the real binary against those whom it must not
// trust: sites and their agents, heads, images and jobs, stores of checkpoints,
// other users of a host. docs/explanation/security.md names the test of each promise.
//
// One file per kind of fault. A site that lies comes from package
// internal/testkit/hostilesite, which is given what to change:
//
//	b, job := busyboxJob(t, "run: true")
//	hostilesite.Start(t, b, hostilesite.Lie{
//		Of: hostilesite.Head, Call: "watch", Where: map[string]any{"phase": "run", "begin": true},
//		Patch: map[string]any{"rank": -7},
//	})
//	r := b.Try("run", job)
//
// Of an agent each answer can be changed (Call is the agent's method, as in
// provider/ssh/remote.go), refused, or followed by any bytes; before a call reaches
// the site a shell command can change its files (Lie.Run). Of a head each answer and
// each event can; its result is changed by hostilesite.Result. A test binary that uses one calls hostilesite.Main in its TestMain.
package hostile
