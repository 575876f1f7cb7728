// Runs in a scoring box, in the same process as the project's code: takes steps, gives back values, judges nothing.
// argv: descriptor of the steps, descriptor of the reply, path of the module.
//
// Whatever the reply needs is taken before the module is loaded, so that nothing the module changes can reach it.
// A module that forges a reply must still know the right values, and nobody here does.

import { closeSync, readFileSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const exit = process.exit.bind(process);
const { stringify } = JSON;
const { isArray } = Array;
const { isFinite } = Number;
const { keys, create } = Object;
const { apply } = Reflect;
const encode = TextEncoder.prototype.encode.bind(new TextEncoder());
const write = writeSync;

const MAX_DEPTH = 8;
const MAX_ITEMS = 100_000;
const MAX_MESSAGE = 300;

const [inputDescriptor, replyDescriptor, modulePath] = process.argv.slice(2);
const { nonce, steps } = JSON.parse(readFileSync(Number(inputDescriptor), 'utf8'));
closeSync(Number(inputDescriptor));

const objects = create(null); // name -> what `make` returned
const returned = []; // raw results of the steps so far, for `again`
const answers = [];

let module;
let failure = null;
try {
  module = await import(pathToFileURL(modulePath).href);
} catch (error) {
  failure = messageOf(error);
}
if (failure === null) {
  for (let index = 0; index < steps.length; index += 1) {
    answers[index] = answerTo(steps[index], index);
  }
}
reply(failure === null ? { nonce, answers } : { nonce, failure });
exit(0);

function answerTo(step, index) {
  const args = step.args ?? [];
  const answer = create(null);
  try {
    const value = perform(step, args);
    returned[index] = value;
    answer.value = step.op === 'make' ? null : step.read ? fieldsOf(value, step.read) : copy(value, 0);
    if (step.scribble) {
      scribble(value, 0);
    }
  } catch (error) {
    answer.threw = messageOf(error);
  }
  if (step.watch) {
    answer.args = copy(args, 0);
  }
  return answer;
}

function perform(step, args) {
  if (step.op === 'make') {
    objects[step.name] = apply(functionOf(module, step.export), undefined, args);
    return objects[step.name];
  }
  if (step.op === 'again') {
    return returned[step.step];
  }
  const object = objects[step.on];
  if (object === undefined || object === null) {
    throw new TypeError(`there is no ${step.on}`);
  }
  return step.op === 'call' ? apply(functionOf(object, step.method), object, args) : object[step.property];
}

function functionOf(holder, name) {
  const found = holder[name];
  if (typeof found !== 'function') {
    throw new TypeError(`${name} is not a function`);
  }
  return found;
}

/** The named fields of an object, or of each object of an array; a field that is not there is left out. */
function fieldsOf(value, names) {
  if (isArray(value)) {
    const list = [];
    const length = boundedLength(value);
    for (let index = 0; index < length; index += 1) {
      list[index] = fieldsOf(value[index], names);
    }
    return list;
  }
  if (typeof value !== 'object' || value === null) {
    return copy(value, 0);
  }
  const fields = create(null);
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index];
    if (name in value) {
      fields[name] = copy(value[name], 1);
    }
  }
  return fields;
}

/** Plain data out of anything; what JSON cannot say becomes `{ strange: … }`, which equals no expected value. */
function copy(value, depth) {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') {
    return value;
  }
  if (typeof value === 'number') {
    return isFinite(value) ? value : strange(`${value}`);
  }
  if (typeof value !== 'object') {
    return strange(typeof value);
  }
  if (depth > MAX_DEPTH) {
    return strange('nested too deep');
  }
  if (isArray(value)) {
    const list = [];
    const length = boundedLength(value);
    for (let index = 0; index < length; index += 1) {
      list[index] = copy(value[index], depth + 1);
    }
    return list;
  }
  const plain = create(null);
  const names = keys(value);
  for (let index = 0; index < names.length; index += 1) {
    plain[names[index]] = copy(value[names[index]], depth + 1);
  }
  return plain;
}

function strange(what) {
  const mark = create(null);
  mark.strange = what;
  return mark;
}

function boundedLength(list) {
  const { length } = list;
  if (typeof length !== 'number' || !(length <= MAX_ITEMS)) {
    throw new RangeError(`an array of more than ${MAX_ITEMS} items`);
  }
  return length;
}

/** Spoils an answer after it has been copied: if the module still uses the object, what follows will be wrong. */
function scribble(value, depth) {
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) {
    return;
  }
  const names = keys(value);
  for (let index = 0; index < names.length; index += 1) {
    scribble(value[names[index]], depth + 1);
    try {
      value[names[index]] = 'scribbled';
    } catch {
      // A frozen answer cannot be spoiled, so sharing it does no harm.
    }
  }
  if (isArray(value)) {
    try {
      value[value.length] = 'scribbled';
    } catch {
      // As above.
    }
  }
}

function messageOf(error) {
  try {
    return `${error}`.slice(0, MAX_MESSAGE);
  } catch {
    return 'something that has no text';
  }
}

function reply(data) {
  const bytes = encode(`${stringify(data)}\n`);
  let sent = 0;
  while (sent < bytes.length) {
    sent += write(Number(replyDescriptor), bytes, sent);
  }
}
