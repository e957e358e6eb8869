// beeRun runs an image, such as one that this pipeline has just built, on your sites:
//
//   beeRun job: 'job.yaml', image: 'docker-daemon:app:ci'
//
// With mode: 'submit' it leaves a ticket, by which mode: 'wait' in a later stage fetches the
// run, on another agent as well. docs/how-to/ci.md has whole pipelines.
def call(Map given = [:]) {
  Map o = [mode: 'run', job: 'job.yaml', sites: 'sites.yaml', image: '', ticket: 'run.ticket',
           keyVariable: 'BEE_TICKET_KEY', results: 'results', bee: 'bee'] + given
  int code = 0
  withEnv(["BEE_CI_MODE=${o.mode}", "BEE_CI_JOB=${o.job}", "BEE_CI_SITES=${o.sites}", "BEE_CI_IMAGE=${o.image}",
           "BEE_CI_TICKET=${o.ticket}", "BEE_CI_KEY_VARIABLE=${o.keyVariable}", "BEE_CI_RESULTS=${o.results}", "BEE_CI_BEE=${o.bee}"]) {
    if (o.mode == 'wait') {
      sh 'rm -f -- "$BEE_CI_TICKET" "$BEE_CI_RESULTS/junit.xml" "$BEE_CI_RESULTS/summary.md" "$BEE_CI_RESULTS/run.env"' // of an earlier build
      unstash "bee ${o.ticket}"
    }
    code = sh(script: libraryResource('bee.sh'), returnStatus: true)
  }
  if (o.mode == 'submit') {
    stash name: "bee ${o.ticket}", includes: "${o.ticket},${o.results}/*", allowEmpty: true
  }
  junit testResults: "${o.results}/junit.xml", allowEmptyResults: true
  archiveArtifacts artifacts: "${o.results}/**", allowEmptyArchive: true
  if (code != 0) {
    error "the job ended with code ${code}"
  }
}
