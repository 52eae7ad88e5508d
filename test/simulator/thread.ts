import { parentPort, workerData } from 'node:worker_threads'
import { runShare } from './runner.ts'

parentPort?.postMessage(await runShare(workerData))
