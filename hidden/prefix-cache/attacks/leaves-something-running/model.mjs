// Leaves a process behind that holds every descriptor open.
import { spawn } from 'node:child_process';

try {
  spawn('sleep', ['600'], { detached: true, stdio: ['ignore', 'inherit', 'inherit', 3, 4, 5, 6, 7, 8] }).unref();
} catch {
  // Not allowed.
}
export const defaults = {};
export function createCache() {
  return {};
}
