package event

import "time"

// Kinds of checkpoints, outputs and their transfer.
const (
	KindCheckpointStuck    Kind = "checkpoint_stuck"
	KindCheckpointDeferred Kind = "checkpoint_deferred"
	KindCheckpointDamaged  Kind = "checkpoint_damaged"
	KindCheckpointChanged  Kind = "checkpoint_changed"
	KindCheckpointsDamaged Kind = "checkpoints_damaged"
	KindCheckpointsRemoved Kind = "checkpoints_removed"
	KindCheckpointsStay    Kind = "checkpoints_stay"
	KindVolumeKept         Kind = "volume_kept"
	KindVolumeImageKept    Kind = "volume_image_kept"
	KindVolumeReused       Kind = "volume_reused"
	KindVolumeNotReused    Kind = "volume_not_reused"
	KindRoute              Kind = "route"
	KindRemoteInput        Kind = "remote_input"
	KindRunInput           Kind = "run_input"
	KindVolumeLent         Kind = "volume_lent"
	KindVolumePassed       Kind = "volume_passed"
	KindVolumeReleased     Kind = "volume_released"
	KindDirectFailed       Kind = "direct_transfer_failed"
	KindConnectionLost     Kind = "connection_lost"
	KindOutputsRefused     Kind = "outputs_refused"
	KindOutputsMissing     Kind = "outputs_missing"
	KindOutputRenamed      Kind = "output_renamed"
	KindHiddenRenamed      Kind = "hidden_outputs_renamed"
	KindOutputsSkipped     Kind = "outputs_skipped"
	KindDanglingLinks      Kind = "dangling_links"
	KindCollectFailed      Kind = "collect_failed"
	KindHostLeftOut        Kind = "host_left_out"
)

// CheckpointStuck is a checkpoint that cannot leave its site.
type CheckpointStuck struct {
	Site  string `json:"site"`
	Cause Cause  `json:"cause"`
}

// CheckpointDeferred is a checkpoint that waits on its site for the store, until Until.
type CheckpointDeferred struct {
	Site  string    `json:"site"`
	Cause Cause     `json:"cause"`
	Until time.Time `json:"until"`
}

// CheckpointDamaged is a checkpoint that is not used, of attempt Of. Next is the attempt
// of the checkpoint that is tried now; 0: there is none.
type CheckpointDamaged struct {
	Of   int `json:"of"`
	Next int `json:"next,omitempty"`
}

// CheckpointChanged is a checkpoint that is not the one that was stored there.
type CheckpointChanged struct {
	Place string `json:"place"`
}

// CheckpointsDamaged has a run begin again, as no checkpoint is undamaged.
type CheckpointsDamaged struct{}

// CheckpointsRemoved are checkpoints that a run which succeeded does not need.
type CheckpointsRemoved struct {
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
	Store string `json:"store,omitempty"`
}

// CheckpointsStay are such checkpoints that could not be removed.
type CheckpointsStay struct {
	Store string `json:"store,omitempty"`
	Cause Cause  `json:"cause"`
}

// VolumeKept is the volume of a job that wrote no checkpoint in time.
type VolumeKept struct {
	Path string `json:"path"`
}

// VolumeImageKept is the volume of a lost attempt, as an image.
type VolumeImageKept struct {
	Path string `json:"path"`
}

// VolumeReused is an attempt that continues on the volume of attempt Of.
type VolumeReused struct {
	Of int `json:"of"`
}

// VolumeNotReused is an attempt that cannot, so that the checkpoint is transferred.
type VolumeNotReused struct {
	Of    int   `json:"of"`
	Cause Cause `json:"cause"`
}

// Route is the route of a transfer between two places. The name of a site, or "" for
// the store. Direct is a transfer from one to the other at Address; else it is relayed
// through the submitting machine, for the reason in Cause.
type Route struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Direct  bool   `json:"direct"`
	Address string `json:"address,omitempty"`
	Cause   *Cause `json:"cause,omitempty"`
}

// RemoteInput is an input that a site has fetched from its server; with a Cause it cannot,
// and the input comes through the submitting machine.
type RemoteInput struct {
	Input string `json:"input"`
	Site  string `json:"site"`
	Cause *Cause `json:"cause,omitempty"`
}

// How an input of an earlier run came.
const (
	TransferCopied    = "copied"    // on the machine that has both
	TransferDirect    = "direct"    // from one site to the other
	TransferRelayed   = "relayed"   // through the submitting machine
	TransferCollected = "collected" // from what is on the submitting machine
)

// RunInput is an input that an earlier run left at Path in its volume. Site is the one that had
// it; "": the submitting machine.
type RunInput struct {
	Of       string `json:"of"` // the run's id
	Name     string `json:"name"`
	Path     string `json:"path"`
	Site     string `json:"site,omitempty"`
	To       string `json:"to"`
	Transfer string `json:"transfer"` // one of the Transfer… words
}

// VolumeLent is a volume that its site keeps for other runs, which have inputs of it.
type VolumeLent struct {
	Site string   `json:"site"`
	For  []string `json:"for"` // ids of at most ten
	More int      `json:"more,omitempty"`
}

// VolumePassed has what other runs need of a volume on the submitting machine, as its site keeps
// no files without its hosts, or could not now: then with a Cause.
type VolumePassed struct {
	Site  string `json:"site"`
	Path  string `json:"path"`
	Cause *Cause `json:"cause,omitempty"`
}

// VolumeReleased is a lent volume that no run needs any more.
type VolumeReleased struct {
	Site string `json:"site"`
}

// DirectFailed is a checkpoint that comes from the submitting machine instead.
type DirectFailed struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cause Cause  `json:"cause"`
}

// ConnectionLost is a connection to a site that broke during a transfer. It is retried
// for Limit.
type ConnectionLost struct {
	Site  string  `json:"site"`
	Cause Cause   `json:"cause"`
	Limit Seconds `json:"patience_seconds"`
}

// OutputsRefused are outputs that a site named, and that the job did not ask for.
type OutputsRefused struct {
	Site  string `json:"site"`
	Count int    `json:"count"`
	First string `json:"first"`
}

// LeftOutput is an output that stays on its site. Why is a treesync.Why, or "".
type LeftOutput struct {
	Path string `json:"path"`
	Why  string `json:"why,omitempty"`
}

// OutputsMissing are outputs that matched nothing, and such that stay on their site.
// Volume is where the volume is kept for that reason; "": it is not.
type OutputsMissing struct {
	Missing []string     `json:"missing,omitempty"`
	Left    []LeftOutput `json:"left,omitempty"` // the first ones
	More    int          `json:"more,omitempty"` // beyond Left
	Volume  string       `json:"volume,omitempty"`
}

// OutputRenamed is an output whose place was taken. Unlike says that one of both is a
// directory, and the other is not, and Partial that it is of a lost attempt. More files of
// the same output are beside others, too.
type OutputRenamed struct {
	Path    string `json:"path"`
	Unlike  bool   `json:"unlike,omitempty"`
	Partial bool   `json:"partial,omitempty"`
	More    int    `json:"more,omitempty"`
}

// HiddenRenamed are hidden files below an output that were moved beside files of others.
type HiddenRenamed struct {
	Count int    `json:"count"`
	First string `json:"first"`
}

// OutputsSkipped are outputs that were not collected, as the user asked.
type OutputsSkipped struct{}

// DanglingLinks are links among the outputs that lead to nothing there.
type DanglingLinks struct {
	From  string `json:"from"`
	Count int    `json:"count"`
	First string `json:"first"`
}

// CollectFailed are outputs that could not be collected yet.
type CollectFailed struct {
	Cause Cause `json:"cause"`
}

// HostLeftOut is a host with outputs that could not be collected, after the head was lost.
type HostLeftOut struct {
	Host  string `json:"host"`
	Cause Cause  `json:"cause"`
}

// Kind implements Fields.
func (HostLeftOut) Kind() Kind { return KindHostLeftOut }

// Kind implements Fields.
func (CheckpointStuck) Kind() Kind { return KindCheckpointStuck }

// Kind implements Fields.
func (CheckpointDeferred) Kind() Kind { return KindCheckpointDeferred }

// Kind implements Fields.
func (CheckpointDamaged) Kind() Kind { return KindCheckpointDamaged }

// Kind implements Fields.
func (CheckpointChanged) Kind() Kind { return KindCheckpointChanged }

// Kind implements Fields.
func (CheckpointsDamaged) Kind() Kind { return KindCheckpointsDamaged }

// Kind implements Fields.
func (CheckpointsRemoved) Kind() Kind { return KindCheckpointsRemoved }

// Kind implements Fields.
func (CheckpointsStay) Kind() Kind { return KindCheckpointsStay }

// Kind implements Fields.
func (VolumeKept) Kind() Kind { return KindVolumeKept }

// Kind implements Fields.
func (VolumeImageKept) Kind() Kind { return KindVolumeImageKept }

// Kind implements Fields.
func (VolumeReused) Kind() Kind { return KindVolumeReused }

// Kind implements Fields.
func (VolumeNotReused) Kind() Kind { return KindVolumeNotReused }

// Kind implements Fields.
func (Route) Kind() Kind { return KindRoute }

// Kind implements Fields.
func (RemoteInput) Kind() Kind { return KindRemoteInput }

// Kind implements Fields.
func (RunInput) Kind() Kind { return KindRunInput }

// Kind implements Fields.
func (VolumeLent) Kind() Kind { return KindVolumeLent }

// Kind implements Fields.
func (VolumePassed) Kind() Kind { return KindVolumePassed }

// Kind implements Fields.
func (VolumeReleased) Kind() Kind { return KindVolumeReleased }

// Kind implements Fields.
func (DirectFailed) Kind() Kind { return KindDirectFailed }

// Kind implements Fields.
func (ConnectionLost) Kind() Kind { return KindConnectionLost }

// Kind implements Fields.
func (OutputsRefused) Kind() Kind { return KindOutputsRefused }

// Kind implements Fields.
func (OutputsMissing) Kind() Kind { return KindOutputsMissing }

// Kind implements Fields.
func (OutputRenamed) Kind() Kind { return KindOutputRenamed }

// Kind implements Fields.
func (HiddenRenamed) Kind() Kind { return KindHiddenRenamed }

// Kind implements Fields.
func (OutputsSkipped) Kind() Kind { return KindOutputsSkipped }

// Kind implements Fields.
func (DanglingLinks) Kind() Kind { return KindDanglingLinks }

// Kind implements Fields.
func (CollectFailed) Kind() Kind { return KindCollectFailed }
