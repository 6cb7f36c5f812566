// Stands in place of broker/src/index.js of the Node package, so that a plugin which starts its own broker starts
// redsyn-bridge: the same arguments, the same signals, the same exit codes, and never longer than its parent.
import { spawn } from 'node:child_process'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const brokerFolder = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const flag = process.argv.indexOf('--config')
const named = flag >= 0 ? process.argv[flag + 1] : undefined
const config = named === undefined ? join(brokerFolder, 'config.yaml') : resolve(named)
const program = process.env.REDSYN_BRIDGE_BIN || 'redsyn-bridge'

// The broker reads the pipe's end as the word to stop: it ends with this process, however that ends.
const broker = spawn(program, ['serve', '--config', config, '--stop-on-eof'], {
  stdio: ['pipe', 'inherit', 'inherit'],
  windowsHide: true,
})

broker.on('error', (error) => {
  console.error(`[relay-broker] fatal: cannot start ${program}: ${error.message}; put it on the PATH or name it in REDSYN_BRIDGE_BIN`)
  process.exit(1)
})
broker.on('exit', (code) => process.exit(code ?? 1))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => broker.kill(signal))
