"""Writes a model folder of about 50 kB that Dynamo accepts offline: a tokenizer and four JSON files, no weights.

Rule: runs in Dynamo's own environment (it needs `tokenizers`), so it imports nothing of this project.

    python make_model.py FOLDER
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

# A mocker answers with random token ids up to about 1750, so every id below this bound must decode to some text.
VOCABULARY_SIZE = 2048
MAX_TOKENS = 2048
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}"

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": MAX_TOKENS,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": MAX_TOKENS,
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "chat_template": CHAT_TEMPLATE,
}


def tokenizer() -> Tokenizer:
    """One token a word: the few words of a prompt are unknown to it, which the mocker does not mind."""
    words = [f"w{number}" for number in range(VOCABULARY_SIZE - len(SPECIAL_TOKENS))]
    vocabulary = {word: number for number, word in enumerate([*SPECIAL_TOKENS, *words])}
    made = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    made.add_special_tokens(list(SPECIAL_TOKENS))
    return made


def write_model(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    files = {
        "config.json": CONFIG,
        "tokenizer_config.json": TOKENIZER_CONFIG,
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
